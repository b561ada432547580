-- What a state that was lost, or that is older than its hosts, cannot know, and does not make up.

-- Numbers below these may have been given before: none of them is given again.
CREATE TABLE counter_floor (
  counter TEXT PRIMARY KEY CHECK (counter IN ('incarnation', 'uid', 'gid')),
  number  INTEGER NOT NULL CHECK (number >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER counter_floor_is_new BEFORE INSERT ON counter_floor
WHEN EXISTS (SELECT 1 FROM counter_floor WHERE counter = NEW.counter AND number > NEW.number)
BEGIN SELECT RAISE(ABORT, 'a counter never goes back'); END;

CREATE TRIGGER counter_floor_only_grows BEFORE UPDATE ON counter_floor
WHEN NEW.counter IS NOT OLD.counter OR NEW.number < OLD.number
BEGIN SELECT RAISE(ABORT, 'a counter never goes back'); END;

CREATE TRIGGER counter_floor_stays BEFORE DELETE ON counter_floor
BEGIN SELECT RAISE(ABORT, 'a counter never goes back'); END;

-- Nodes that nobody is placed on, each with what is to be found out about it first.
CREATE TABLE doubt (
  node   TEXT NOT NULL,
  kind   TEXT NOT NULL CHECK (kind IN ('unseen', 'unproved')),
  reason TEXT NOT NULL CHECK (trim(reason) <> ''),
  since  TEXT NOT NULL,
  PRIMARY KEY (node, kind)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER doubt_is_fixed BEFORE UPDATE ON doubt
WHEN NEW.node IS NOT OLD.node OR NEW.kind IS NOT OLD.kind OR NEW.since IS NOT OLD.since
BEGIN SELECT RAISE(ABORT, 'a doubt is about one node'); END;

CREATE TRIGGER doubt_ends_by_event BEFORE DELETE ON doubt
WHEN NOT EXISTS (
  SELECT 1 FROM event WHERE sequence = (SELECT max(sequence) FROM event
    WHERE ref = 'node/' || OLD.node AND type IN ('doubted', 'doubt_ended')
      AND json_extract(after, '$.kind') = OLD.kind)
  AND type = 'doubt_ended')
BEGIN SELECT RAISE(ABORT, 'a doubt ends with an event that says by what'); END;
