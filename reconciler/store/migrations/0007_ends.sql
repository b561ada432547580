-- How long something lives, and how long what is to go can still come back.
ALTER TABLE resource ADD COLUMN expires_at TEXT NOT NULL DEFAULT '';
ALTER TABLE resource ADD COLUMN undo_until TEXT NOT NULL DEFAULT '';

-- One that is to go and can still come back is quarantined. The text of the check is changed as in
-- 0005: nothing of what is stored changes with it.
PRAGMA writable_schema = ON;
UPDATE sqlite_master SET sql = replace(sql, '''active'', ''failed''', '''active'', ''quarantined'', ''failed''')
  WHERE type = 'table' AND name = 'resource';
PRAGMA writable_schema = RESET;

-- Whose time was over, and that has gone for that: its file makes it no second time.
CREATE TABLE lapsed (
  ref   TEXT PRIMARY KEY,
  since TEXT NOT NULL
) STRICT, WITHOUT ROWID;
