-- What may leave the state, and when: else it grows with every apply, for ever.

-- == the oldest events, once a file beside the state holds them ==

-- A file holds the events after those of the row before, up to `last`. `digest` is that of its last
-- event: the chain goes on from there, and it vouches for the whole file. `serial` is the last
-- sequence so far that counts for the serial of the state.
CREATE TABLE event_archive (
  last   INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,
  serial INTEGER NOT NULL,
  file   TEXT NOT NULL
) STRICT;

CREATE TRIGGER event_archive_goes_on BEFORE INSERT ON event_archive
WHEN NEW.last <= (SELECT coalesce(max(last), 0) FROM event_archive)
  OR NEW.digest IS NOT (SELECT digest FROM event WHERE sequence = NEW.last)
BEGIN SELECT RAISE(ABORT, 'an archive goes on from the one before, to an event that is there'); END;

CREATE TRIGGER event_archive_is_final BEFORE UPDATE ON event_archive
BEGIN SELECT RAISE(ABORT, 'an archive never changes'); END;

CREATE TRIGGER event_archive_stays BEFORE DELETE ON event_archive
BEGIN SELECT RAISE(ABORT, 'an archive is never forgotten'); END;

DROP TRIGGER event_stays;
CREATE TRIGGER event_stays BEFORE DELETE ON event
WHEN OLD.sequence > (SELECT coalesce(max(last), 0) FROM event_archive)
BEGIN SELECT RAISE(ABORT, 'an event that is in no archive is never deleted'); END;

DROP TRIGGER event_is_next;
CREATE TRIGGER event_is_next BEFORE INSERT ON event
WHEN NEW.sequence IS NOT 1 + coalesce(
  (SELECT max(sequence) FROM event), (SELECT max(last) FROM event_archive), 0)
BEGIN SELECT RAISE(ABORT, 'events follow one another'); END;

-- Claims, proofs and overrides outlive the events that they were made with. Taking a reference out
-- of the text of a table changes nothing of what is stored; this is how SQLite's own manual does it.
PRAGMA writable_schema = ON;
UPDATE sqlite_master SET sql = replace(sql, ' REFERENCES event (sequence)', '')
  WHERE type = 'table' AND name IN ('claim', 'proof', 'override');
PRAGMA writable_schema = RESET;

-- == runs, their steps and the plans that they used ==

-- What was asked of a host and nobody has seen the end of, unless it was asked anew since.
CREATE TRIGGER step_stays BEFORE DELETE ON step
WHEN (OLD.state = 'open' OR OLD.state = 'unknown' AND NOT EXISTS (
    SELECT 1 FROM observation WHERE node = OLD.node AND facts IS NOT NULL AND at >= OLD.finished))
  AND NOT EXISTS (
    SELECT 1 FROM step WHERE ref = OLD.ref AND id = OLD.id AND run > OLD.run)
BEGIN SELECT RAISE(ABORT, 'a step without an end is never deleted'); END;

CREATE TRIGGER run_stays BEFORE DELETE ON run
WHEN OLD.number > (SELECT max(number) FROM run) - 100
  OR EXISTS (SELECT 1 FROM step WHERE run = OLD.id)
BEGIN SELECT RAISE(ABORT, 'a run of late, or with steps, is never deleted'); END;

-- Later no saved plan can come back: the serial has moved on, or what it asks for is what a new
-- plan asks for.
DROP TRIGGER plan_stays_used;
CREATE TRIGGER plan_stays_used BEFORE DELETE ON plan
WHEN EXISTS (
  SELECT 1 FROM run WHERE id = OLD.run AND number > (SELECT max(number) FROM run) - 100)
BEGIN SELECT RAISE(ABORT, 'a used plan stays used'); END;

CREATE INDEX plan_by_run ON plan (run);

-- == revocations that are pending ==

-- Whose access ends with a step that has not ended well so far: told until it has, however many
-- runs come between.
CREATE TABLE revocation (
  ref    TEXT NOT NULL,
  node   TEXT NOT NULL,
  people TEXT NOT NULL CHECK (json_valid(people)),
  since  TEXT NOT NULL,
  PRIMARY KEY (ref, node)
) STRICT, WITHOUT ROWID;

INSERT INTO revocation (ref, node, people, since)
WITH try AS (
  SELECT * FROM step s WHERE verb = 'access.sync' AND state <> 'done' AND NOT EXISTS (
    SELECT 1 FROM step d
    WHERE d.ref = s.ref AND d.id = s.id AND d.state = 'done' AND d.run > s.run))
SELECT t.ref, t.node, json_extract(e.after, '$.revokes'),
  (SELECT min(started) FROM try f WHERE f.ref = t.ref AND f.node = t.node)
FROM try t
JOIN event e ON e.ref = t.ref AND e.run = t.run AND e.type = 'step_started'
  AND json_extract(e.after, '$.step') = t.id
WHERE json_extract(e.after, '$.revokes') IS NOT NULL
  AND t.run = (SELECT max(run) FROM try n WHERE n.ref = t.ref AND n.node = t.node);
