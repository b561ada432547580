-- The numbers of accounts and groups on hosts: each is given once, and never to anybody else.
CREATE TABLE posix_id (
  kind   TEXT NOT NULL CHECK (kind IN ('uid', 'gid')),
  number INTEGER NOT NULL CHECK (number >= 1000),
  owner  TEXT NOT NULL CHECK (owner <> ''),  -- a uid's allocation id, a gid's project
  since  TEXT NOT NULL,
  ended  TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (kind, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX posix_id_one_an_owner ON posix_id (kind, owner) WHERE ended = '';

CREATE TRIGGER posix_id_is_new BEFORE INSERT ON posix_id
WHEN EXISTS (SELECT 1 FROM posix_id WHERE kind = NEW.kind AND number = NEW.number)
  OR EXISTS (SELECT 1 FROM posix_id WHERE kind = NEW.kind AND owner = NEW.owner AND ended = '')
BEGIN SELECT RAISE(ABORT, 'a uid or gid is given once, and one to each owner'); END;

CREATE TRIGGER posix_id_is_fixed BEFORE UPDATE ON posix_id
WHEN NEW.kind IS NOT OLD.kind OR NEW.number IS NOT OLD.number OR NEW.since IS NOT OLD.since
  OR OLD.ended <> '' OR NEW.owner IS NOT OLD.owner AND (OLD.kind = 'uid' OR NEW.ended <> '')
BEGIN SELECT RAISE(ABORT, 'a uid keeps its owner, a gid its project, and each ends once'); END;

CREATE TRIGGER posix_id_changes_to_no_owner_with_one BEFORE UPDATE ON posix_id
WHEN NEW.owner IS NOT OLD.owner AND EXISTS (
  SELECT 1 FROM posix_id WHERE kind = NEW.kind AND owner = NEW.owner AND ended = '')
BEGIN SELECT RAISE(ABORT, 'this owner has a uid or gid already'); END;

CREATE TRIGGER posix_id_stays BEFORE DELETE ON posix_id
BEGIN SELECT RAISE(ABORT, 'a uid or gid is never deleted'); END;
