-- When a lease began that an allocation goes on with, in the place of another one that it replaced.
--
-- Of what is not here the lease began with its claims.
CREATE TABLE lease (
  allocation_id TEXT PRIMARY KEY CHECK (allocation_id <> ''),
  since         TEXT NOT NULL CHECK (since <> '')
) STRICT, WITHOUT ROWID;

CREATE TRIGGER lease_is_new BEFORE INSERT ON lease
WHEN EXISTS (SELECT 1 FROM lease WHERE allocation_id = NEW.allocation_id)
BEGIN SELECT RAISE(ABORT, 'a lease begins once'); END;

CREATE TRIGGER lease_is_final BEFORE UPDATE ON lease
BEGIN SELECT RAISE(ABORT, 'the begin of a lease never changes'); END;

CREATE TRIGGER lease_stays BEFORE DELETE ON lease
BEGIN SELECT RAISE(ABORT, 'the begin of a lease is never deleted'); END;
