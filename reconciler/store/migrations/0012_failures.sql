-- What nodes have failed at since they last did it: others are asked before them.
--
-- It speaks of a host as it was then: `basis` is the digest of what it showed. No truth hangs on
-- it: who goes by it only asks in another order.
CREATE TABLE node_failure (
  node    TEXT PRIMARY KEY CHECK (node <> ''),
  count   INTEGER NOT NULL CHECK (count >= 1),
  since   TEXT NOT NULL,
  at      TEXT NOT NULL,
  verb    TEXT NOT NULL,
  ref     TEXT NOT NULL,
  code    TEXT NOT NULL CHECK (code <> ''),
  message TEXT NOT NULL,
  basis   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
