-- Whose an allocation was stays known when it has ended, since its files may outlive it.
--
-- `person` is a User by name, each who has ever owned it; empty where others may have, and nobody
-- has written down who.
CREATE TABLE allocation_person (
  allocation_id TEXT NOT NULL CHECK (allocation_id <> ''),
  person        TEXT NOT NULL,
  since         TEXT NOT NULL,
  PRIMARY KEY (allocation_id, person)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER allocation_person_is_new BEFORE INSERT ON allocation_person
WHEN EXISTS (SELECT 1 FROM allocation_person
  WHERE allocation_id = NEW.allocation_id AND person = NEW.person)
BEGIN SELECT RAISE(ABORT, 'who has owned an allocation is written once'); END;

CREATE TRIGGER allocation_person_is_final BEFORE UPDATE ON allocation_person
BEGIN SELECT RAISE(ABORT, 'who has owned an allocation never changes'); END;

CREATE TRIGGER allocation_person_stays BEFORE DELETE ON allocation_person
BEGIN SELECT RAISE(ABORT, 'who has owned an allocation is never deleted'); END;

-- Of what was changed since it was made nobody knows any more who owned it before.
INSERT INTO allocation_person (allocation_id, person, since)
  SELECT id, json_extract(normal, '$.spec.owner'), applied_at FROM resource
  WHERE kind = 'allocation' AND id <> '' AND json_extract(normal, '$.spec.owner') <> '';
INSERT INTO allocation_person (allocation_id, person, since)
  SELECT id, '', applied_at FROM resource
  WHERE kind = 'allocation' AND id <> '' AND generation > 1;

-- Somebody's word that what an ended allocation has left in a volume belongs to another one.
CREATE TABLE reopening (
  event    INTEGER PRIMARY KEY,
  volume   TEXT NOT NULL REFERENCES volume (id),
  from_id  TEXT NOT NULL,
  from_uid INTEGER NOT NULL,
  to_id    TEXT NOT NULL,
  to_uid   INTEGER NOT NULL,
  actor    TEXT NOT NULL CHECK (trim(actor) <> ''),
  reason   TEXT NOT NULL CHECK (trim(reason) <> ''),
  at       TEXT NOT NULL,
  CHECK (from_id <> to_id AND from_uid <> to_uid)
) STRICT, WITHOUT ROWID;
CREATE INDEX reopening_by_volume ON reopening (volume, event);

CREATE TRIGGER reopening_is_new BEFORE INSERT ON reopening
WHEN EXISTS (SELECT 1 FROM reopening WHERE event = NEW.event)
BEGIN SELECT RAISE(ABORT, 'a word is never written over'); END;

CREATE TRIGGER reopening_is_signed BEFORE INSERT ON reopening
WHEN trim(coalesce(NEW.actor, '')) = '' OR trim(coalesce(NEW.reason, '')) = ''
BEGIN SELECT RAISE(ABORT, 'a word has an actor and a reason'); END;

CREATE TRIGGER reopening_has_an_event BEFORE INSERT ON reopening
WHEN NOT EXISTS (
  SELECT 1 FROM event WHERE sequence = NEW.event AND type = 'reopening'
    AND actor = NEW.actor AND reason = NEW.reason)
BEGIN SELECT RAISE(ABORT, 'a word is recorded with an event that says so'); END;

-- Each number is that of its allocation: it was given once.
CREATE TRIGGER reopening_is_of_their_uids BEFORE INSERT ON reopening
WHEN NEW.from_id IS NEW.to_id
  OR NOT EXISTS (SELECT 1 FROM posix_id
    WHERE kind = 'uid' AND number = NEW.from_uid AND owner = NEW.from_id)
  OR NOT EXISTS (SELECT 1 FROM posix_id
    WHERE kind = 'uid' AND number = NEW.to_uid AND owner = NEW.to_id)
BEGIN SELECT RAISE(ABORT, 'a uid is that of the allocation to which it was given'); END;

CREATE TRIGGER reopening_is_after_an_end BEFORE INSERT ON reopening
WHEN NOT EXISTS (SELECT 1 FROM claim WHERE allocation_id = NEW.from_id)
  OR EXISTS (SELECT 1 FROM claim WHERE allocation_id = NEW.from_id AND state <> 'freed')
  OR EXISTS (SELECT 1 FROM attachment
    WHERE allocation_id = NEW.from_id AND volume = NEW.volume AND ended = '')
  OR NOT EXISTS (SELECT 1 FROM attachment
    WHERE allocation_id = NEW.from_id AND volume = NEW.volume)
BEGIN SELECT RAISE(ABORT, 'the allocation that left the files has not ended'); END;

CREATE TRIGGER reopening_is_for_who_has_it BEFORE INSERT ON reopening
WHEN NOT EXISTS (SELECT 1 FROM attachment
  WHERE allocation_id = NEW.to_id AND volume = NEW.volume AND ended = '')
BEGIN SELECT RAISE(ABORT, 'only who has a volume gets files in it'); END;

CREATE TRIGGER reopening_is_final BEFORE UPDATE ON reopening
BEGIN SELECT RAISE(ABORT, 'a word never changes'); END;

CREATE TRIGGER reopening_stays BEFORE DELETE ON reopening
BEGIN SELECT RAISE(ABORT, 'a word is never deleted'); END;
