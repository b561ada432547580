-- Bundles on nodes: which version the platform has put where, or was asking for when it last looked.
CREATE TABLE install (
  node        TEXT NOT NULL,
  bundle      TEXT NOT NULL,
  version     TEXT NOT NULL,
  lock_digest TEXT NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('staging', 'staged', 'failed')),
  digest      TEXT NOT NULL DEFAULT '',
  since       TEXT NOT NULL,
  problem     TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (node, bundle, version)
) STRICT, WITHOUT ROWID;

-- A tree that nobody has seen the digest of is not there, whatever a receipt says.
CREATE TRIGGER install_is_shown BEFORE INSERT ON install
WHEN (NEW.state IS 'staged') <> (coalesce(NEW.digest, '') <> '')
BEGIN SELECT RAISE(ABORT, 'what is staged has the digest that its host has shown'); END;

CREATE TRIGGER install_stays_shown BEFORE UPDATE ON install
WHEN (NEW.state IS 'staged') <> (coalesce(NEW.digest, '') <> '')
BEGIN SELECT RAISE(ABORT, 'what is staged has the digest that its host has shown'); END;

CREATE TRIGGER install_is_fixed BEFORE UPDATE ON install
WHEN NEW.node IS NOT OLD.node OR NEW.bundle IS NOT OLD.bundle OR NEW.version IS NOT OLD.version
BEGIN SELECT RAISE(ABORT, 'an install never moves'); END;
