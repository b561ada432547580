-- What plans leave to somebody, where nobody is asked.

-- Leave for one change that was held, as it was then; used once, or over.
DROP TABLE consent;
CREATE TABLE consent (
  id          TEXT PRIMARY KEY,
  ref         TEXT NOT NULL CHECK (ref <> ''),
  action      TEXT NOT NULL CHECK (action <> ''),
  fingerprint TEXT NOT NULL CHECK (fingerprint <> ''),
  actor       TEXT NOT NULL CHECK (trim(actor) <> ''),
  reason      TEXT NOT NULL CHECK (trim(reason) <> ''),
  at          TEXT NOT NULL,
  expires_at  TEXT NOT NULL CHECK (expires_at > at),
  used_at     TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX consent_unused ON consent (fingerprint) WHERE used_at = '';
CREATE INDEX consent_by_end ON consent (expires_at);

-- What was let go of within a day, though nobody said so of just that. Older ones go when the next
-- one comes, so that a plan reads no more of them than a day had.
CREATE TABLE removal (
  ref   TEXT NOT NULL CHECK (ref <> ''),
  thing TEXT NOT NULL,
  at    TEXT NOT NULL,
  PRIMARY KEY (ref, thing)
) STRICT, WITHOUT ROWID;
CREATE INDEX removal_by_time ON removal (at);
