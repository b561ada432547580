-- Durable data: what a Storage is made of, and which allocations have it or may still have it.
--
-- As with claims: a row is made before any host is touched, and is never deleted. What ends an
-- attachment is what a host has shown, the proof that freed its allocation, or somebody's word.

-- `node` is where the data lies, empty where every node of its class reaches it; `made` is since
-- when a host has shown it, empty as long as none has.
CREATE TABLE volume (
  id       TEXT PRIMARY KEY,
  storage  TEXT NOT NULL,
  class    TEXT NOT NULL,
  backend  TEXT NOT NULL CHECK (json_valid(backend)),
  node     TEXT NOT NULL,
  size_gib INTEGER NOT NULL CHECK (size_gib >= 0),
  state    TEXT NOT NULL CHECK (state IN ('pending', 'made', 'kept', 'wiping', 'gone')),
  since    TEXT NOT NULL,
  made     TEXT NOT NULL DEFAULT '',
  owner    TEXT NOT NULL DEFAULT '',
  event    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE attachment (
  event         INTEGER PRIMARY KEY,
  allocation_id TEXT NOT NULL,
  volume        TEXT NOT NULL REFERENCES volume (id),
  ref           TEXT NOT NULL,
  storage       TEXT NOT NULL,
  node          TEXT NOT NULL,
  mode          TEXT NOT NULL CHECK (mode IN ('ro', 'rw')),
  access        TEXT NOT NULL CHECK (access IN ('single_writer', 'multi_reader', 'multi_writer')),
  mount_path    TEXT NOT NULL,
  since         TEXT NOT NULL,
  ended         TEXT NOT NULL DEFAULT '',
  run           TEXT,
  step          TEXT,
  proof         TEXT REFERENCES proof (id),
  fence         INTEGER REFERENCES fence (event)
) STRICT, WITHOUT ROWID;
CREATE INDEX attachment_by_volume ON attachment (volume, event);
CREATE INDEX attachment_by_allocation ON attachment (allocation_id, event);

-- Somebody's word that an allocation is cut off from a volume. It is for good.
CREATE TABLE fence (
  event         INTEGER PRIMARY KEY,
  volume        TEXT NOT NULL REFERENCES volume (id),
  allocation_id TEXT NOT NULL,
  actor         TEXT NOT NULL CHECK (trim(actor) <> ''),
  reason        TEXT NOT NULL CHECK (trim(reason) <> ''),
  at            TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX fence_by_volume ON fence (volume, event);

-- Money: as with usage_record, but of what lies there, whoever has it.
CREATE TABLE storage_usage (
  volume              TEXT NOT NULL,
  started             TEXT NOT NULL,
  gib                 INTEGER NOT NULL,
  ended               TEXT NOT NULL DEFAULT '',
  storage             TEXT NOT NULL,
  tenant              TEXT NOT NULL,
  project             TEXT NOT NULL,
  class               TEXT NOT NULL,
  price_per_gib_month TEXT NOT NULL,
  currency            TEXT NOT NULL,
  PRIMARY KEY (volume, started, gib)
) STRICT, WITHOUT ROWID;

-- == volume: one a storage, and never anew what was there ==

CREATE UNIQUE INDEX volume_one_a_storage ON volume (storage) WHERE state <> 'gone';

CREATE TRIGGER volume_is_new BEFORE INSERT ON volume
WHEN EXISTS (SELECT 1 FROM volume WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a volume is never written over'); END;

CREATE TRIGGER volume_begins_pending BEFORE INSERT ON volume
WHEN NEW.state IS NOT 'pending' OR NEW.made IS NOT ''
BEGIN SELECT RAISE(ABORT, 'a volume begins as pending'); END;

CREATE TRIGGER volume_storage_has_none BEFORE INSERT ON volume
WHEN EXISTS (SELECT 1 FROM volume WHERE storage = NEW.storage AND state <> 'gone')
BEGIN SELECT RAISE(ABORT, 'the storage has a volume'); END;

CREATE TRIGGER volume_has_an_event BEFORE INSERT ON volume
WHEN NOT EXISTS (
  SELECT 1 FROM event
  WHERE sequence = NEW.event AND type = 'volume_pending' AND ref = NEW.storage)
BEGIN SELECT RAISE(ABORT, 'a volume begins with an event that says so'); END;

CREATE TRIGGER volume_is_fixed BEFORE UPDATE ON volume
WHEN NEW.id IS NOT OLD.id OR NEW.class IS NOT OLD.class OR NEW.backend IS NOT OLD.backend
  OR NEW.node IS NOT OLD.node OR NEW.event IS NOT OLD.event
  OR OLD.made <> '' AND NEW.made IS NOT OLD.made
BEGIN SELECT RAISE(ABORT, 'a volume never moves'); END;

CREATE TRIGGER volume_never_shrinks BEFORE UPDATE ON volume
WHEN OLD.made <> '' AND NEW.size_gib < OLD.size_gib
BEGIN SELECT RAISE(ABORT, 'a volume never shrinks'); END;

CREATE TRIGGER volume_takes_no_name BEFORE UPDATE ON volume
WHEN NEW.storage IS NOT OLD.storage
  AND EXISTS (SELECT 1 FROM volume WHERE storage = NEW.storage AND state <> 'gone')
BEGIN SELECT RAISE(ABORT, 'the storage has a volume'); END;

-- Only what no host has shown may be made; what is kept comes back as what it was.
CREATE TRIGGER volume_goes_its_way BEFORE UPDATE ON volume
WHEN NEW.state IS NOT OLD.state AND NOT (
    OLD.state = 'pending' AND NEW.state IN ('made', 'kept', 'wiping')
    OR OLD.state = 'made' AND NEW.state IN ('kept', 'wiping')
    OR OLD.state = 'kept' AND NEW.state IN ('pending', 'made')
    OR OLD.state = 'wiping' AND NEW.state = 'gone')
  OR (NEW.state = 'made' AND NEW.made = '') OR (NEW.state = 'pending' AND NEW.made <> '')
BEGIN SELECT RAISE(ABORT, 'a volume does not go this way'); END;

CREATE TRIGGER volume_is_wiped_unattached BEFORE UPDATE ON volume
WHEN NEW.state IN ('kept', 'wiping', 'gone')
  AND EXISTS (SELECT 1 FROM attachment WHERE volume = OLD.id AND ended = '')
BEGIN SELECT RAISE(ABORT, 'the volume is attached'); END;

CREATE TRIGGER volume_is_gone_by_a_wipe BEFORE UPDATE ON volume
WHEN OLD.state <> 'gone' AND NEW.state = 'gone' AND NOT EXISTS (
  SELECT 1 FROM event e JOIN step s ON s.run = e.run AND s.ref = e.ref
  WHERE e.type = 'volume_wiping' AND e.ref = OLD.storage AND e.sequence > OLD.event
    AND s.verb = 'storage.wipe' AND s.state = 'done')
BEGIN SELECT RAISE(ABORT, 'a volume is gone when a host has shown it'); END;

CREATE TRIGGER volume_gone_is_final BEFORE UPDATE ON volume
WHEN OLD.state = 'gone'
BEGIN SELECT RAISE(ABORT, 'what is gone never changes again'); END;

CREATE TRIGGER volume_stays BEFORE DELETE ON volume
BEGIN SELECT RAISE(ABORT, 'a volume is never deleted'); END;

-- == attachment: who has a volume, and no more than may ==

CREATE UNIQUE INDEX attachment_one_a_place ON attachment (allocation_id, volume, mount_path)
  WHERE ended = '';

CREATE TRIGGER attachment_is_new BEFORE INSERT ON attachment
WHEN EXISTS (SELECT 1 FROM attachment WHERE event = NEW.event
    OR allocation_id = NEW.allocation_id AND volume = NEW.volume
    AND mount_path = NEW.mount_path AND ended = '')
BEGIN SELECT RAISE(ABORT, 'an attachment is never written over'); END;

CREATE TRIGGER attachment_begins_live BEFORE INSERT ON attachment
WHEN NEW.ended IS NOT '' OR NEW.run IS NOT NULL OR NEW.step IS NOT NULL
  OR NEW.proof IS NOT NULL OR NEW.fence IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an attachment begins as live'); END;

CREATE TRIGGER attachment_has_an_event BEFORE INSERT ON attachment
WHEN NOT EXISTS (
  SELECT 1 FROM event WHERE sequence = NEW.event AND type = 'attaching' AND ref = NEW.ref)
BEGIN SELECT RAISE(ABORT, 'an attachment begins with an event that says so'); END;

CREATE TRIGGER attachment_volume_is_there BEFORE INSERT ON attachment
WHEN NOT EXISTS (SELECT 1 FROM volume
  WHERE id = NEW.volume AND state IN ('pending', 'made') AND node IN ('', NEW.node))
BEGIN SELECT RAISE(ABORT, 'no such volume can be attached there'); END;

CREATE TRIGGER attachment_is_not_fenced BEFORE INSERT ON attachment
WHEN EXISTS (
  SELECT 1 FROM fence WHERE volume = NEW.volume AND allocation_id = NEW.allocation_id)
BEGIN SELECT RAISE(ABORT, 'the allocation is cut off from the volume'); END;

-- single_writer: nobody beside it. multi_reader: any number of readers and one writer.
CREATE TRIGGER attachment_has_no_rival BEFORE INSERT ON attachment
WHEN EXISTS (
  SELECT 1 FROM attachment o
  WHERE o.volume = NEW.volume AND o.ended = '' AND o.allocation_id <> NEW.allocation_id
    AND (NEW.access IS 'single_writer' OR o.access = 'single_writer'
      OR NEW.mode IS NOT 'ro' AND o.mode = 'rw'
        AND (NEW.access IS NOT 'multi_writer' OR o.access <> 'multi_writer')))
BEGIN SELECT RAISE(ABORT, 'the volume has a writer, or can have no other'); END;

CREATE TRIGGER attachment_gets_no_rival BEFORE UPDATE ON attachment
WHEN (NEW.mode IS NOT OLD.mode OR NEW.access IS NOT OLD.access) AND EXISTS (
  SELECT 1 FROM attachment o
  WHERE o.volume = NEW.volume AND o.ended = '' AND o.allocation_id <> NEW.allocation_id
    AND (NEW.access IS 'single_writer' OR o.access = 'single_writer'
      OR NEW.mode IS NOT 'ro' AND o.mode = 'rw'
        AND (NEW.access IS NOT 'multi_writer' OR o.access <> 'multi_writer')))
BEGIN SELECT RAISE(ABORT, 'the volume has a writer, or can have no other'); END;

CREATE TRIGGER attachment_is_fixed BEFORE UPDATE ON attachment
WHEN NEW.event IS NOT OLD.event OR NEW.allocation_id IS NOT OLD.allocation_id
  OR NEW.volume IS NOT OLD.volume OR NEW.node IS NOT OLD.node
  OR NEW.mount_path IS NOT OLD.mount_path OR NEW.since IS NOT OLD.since
BEGIN SELECT RAISE(ABORT, 'an attachment never moves'); END;

CREATE TRIGGER attachment_ended_is_final BEFORE UPDATE ON attachment
WHEN OLD.ended <> ''
BEGIN SELECT RAISE(ABORT, 'what was detached never changes again'); END;

-- By a detach that a host has shown, by the proof of its allocation, or by a word about it.
CREATE TRIGGER attachment_ends_by_evidence BEFORE UPDATE ON attachment
WHEN OLD.ended = '' AND NEW.ended IS NOT ''
    AND (NEW.step IS NOT NULL) + (NEW.proof IS NOT NULL) + (NEW.fence IS NOT NULL) <> 1
  OR NEW.step IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM step WHERE run = NEW.run AND id = NEW.step AND verb = 'storage.detach'
      AND state = 'done' AND node = OLD.node AND ref = OLD.ref)
  OR NEW.proof IS NOT NULL AND (NOT EXISTS (
    SELECT 1 FROM proof WHERE id = NEW.proof AND passed = 1
      AND allocation_id = OLD.allocation_id AND node = OLD.node AND event > OLD.event)
    OR EXISTS (SELECT 1 FROM claim
      WHERE allocation_id = OLD.allocation_id AND state <> 'freed'))
  OR NEW.fence IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM fence WHERE event = NEW.fence AND volume = OLD.volume
      AND allocation_id = OLD.allocation_id AND event > OLD.event)
BEGIN SELECT RAISE(ABORT, 'an attachment ends by what was shown, proved or sworn'); END;

CREATE TRIGGER attachment_cause_belongs_to_ended BEFORE UPDATE ON attachment
WHEN (NEW.ended = '') <> (NEW.step IS NULL AND NEW.proof IS NULL AND NEW.fence IS NULL)
  OR (NEW.run IS NULL) <> (NEW.step IS NULL)
BEGIN SELECT RAISE(ABORT, 'only what was detached has an end'); END;

CREATE TRIGGER attachment_stays BEFORE DELETE ON attachment
BEGIN SELECT RAISE(ABORT, 'an attachment is never deleted'); END;

-- == fence: a word is given once, signed, and about what is attached ==

CREATE TRIGGER fence_is_new BEFORE INSERT ON fence
WHEN EXISTS (SELECT 1 FROM fence WHERE event = NEW.event)
BEGIN SELECT RAISE(ABORT, 'a word is never written over'); END;

CREATE TRIGGER fence_is_signed BEFORE INSERT ON fence
WHEN trim(coalesce(NEW.actor, '')) = '' OR trim(coalesce(NEW.reason, '')) = ''
BEGIN SELECT RAISE(ABORT, 'a word has an actor and a reason'); END;

CREATE TRIGGER fence_has_an_event BEFORE INSERT ON fence
WHEN NOT EXISTS (
  SELECT 1 FROM event WHERE sequence = NEW.event AND type = 'fenced'
    AND actor = NEW.actor AND reason = NEW.reason)
BEGIN SELECT RAISE(ABORT, 'a word is recorded with an event that says so'); END;

CREATE TRIGGER fence_is_of_an_attachment BEFORE INSERT ON fence
WHEN NOT EXISTS (SELECT 1 FROM attachment
  WHERE volume = NEW.volume AND allocation_id = NEW.allocation_id AND ended = '')
BEGIN SELECT RAISE(ABORT, 'only who is attached is cut off'); END;

CREATE TRIGGER fence_is_final BEFORE UPDATE ON fence
BEGIN SELECT RAISE(ABORT, 'a word never changes'); END;

CREATE TRIGGER fence_stays BEFORE DELETE ON fence
BEGIN SELECT RAISE(ABORT, 'a word is never deleted'); END;

-- == storage_usage: what was used is not argued about later ==

CREATE TRIGGER storage_usage_is_new BEFORE INSERT ON storage_usage
WHEN EXISTS (SELECT 1 FROM storage_usage
  WHERE volume = NEW.volume AND (started = NEW.started AND gib = NEW.gib OR ended = ''))
BEGIN SELECT RAISE(ABORT, 'a usage record is never written over'); END;

CREATE TRIGGER storage_usage_only_ends BEFORE UPDATE ON storage_usage
WHEN OLD.ended <> '' OR NEW.ended = ''
  OR NEW.volume IS NOT OLD.volume OR NEW.started IS NOT OLD.started OR NEW.gib IS NOT OLD.gib
  OR NEW.storage IS NOT OLD.storage OR NEW.tenant IS NOT OLD.tenant
  OR NEW.project IS NOT OLD.project OR NEW.class IS NOT OLD.class
  OR NEW.price_per_gib_month IS NOT OLD.price_per_gib_month
  OR NEW.currency IS NOT OLD.currency
BEGIN SELECT RAISE(ABORT, 'a usage record only ends'); END;

CREATE TRIGGER storage_usage_stays BEFORE DELETE ON storage_usage
BEGIN SELECT RAISE(ABORT, 'a usage record is never deleted'); END;

-- == resource: whose data is attached, or being wiped, stays on the books ==

CREATE TRIGGER resource_holds_attachments BEFORE DELETE ON resource
WHEN OLD.kind = 'storage' AND EXISTS (
  SELECT 1 FROM volume v WHERE v.storage = OLD.ref AND (v.state = 'wiping'
    OR EXISTS (SELECT 1 FROM attachment WHERE volume = v.id AND ended = '')))
BEGIN SELECT RAISE(ABORT, 'a storage that is attached, or being wiped, is not forgotten'); END;

-- == for people ==

-- One line a storage, also one whose document is gone: recorded | made | attached | billed.
CREATE VIEW projected_storage AS
SELECT
  coalesce(v.storage, r.ref) AS ref, v.id AS volume, v.state, v.since, v.owner, v.node, v.class,
  v.backend, v.size_gib, r.phase AS recorded_phase, r.applied_at AS recorded_at,
  r."commit" AS recorded_commit,
  (SELECT count(*) FROM attachment a WHERE a.volume = v.id AND a.ended = '') AS attachments,
  (SELECT count(*) FROM attachment a
    WHERE a.volume = v.id AND a.ended = '' AND a.mode = 'rw') AS writers,
  u.price_per_gib_month, u.currency
FROM (SELECT ref FROM resource WHERE kind = 'storage'
  UNION SELECT storage FROM volume WHERE state <> 'gone') s
LEFT JOIN resource r ON r.ref = s.ref
LEFT JOIN volume v ON v.storage = s.ref AND v.state <> 'gone'
LEFT JOIN storage_usage u ON u.volume = v.id AND u.ended = '';

-- One line an attachment, also those that have ended, and by what.
CREATE VIEW projected_attachment AS
SELECT
  a.ref, a.allocation_id, a.storage, a.volume, a.node, a.mode, a.access, a.mount_path, a.since,
  a.ended,
  CASE WHEN a.ended = '' THEN '' WHEN a.proof IS NOT NULL THEN 'proof'
    WHEN a.fence IS NOT NULL THEN 'fence' ELSE 'detach' END AS ended_by,
  f.actor AS fenced_by, f.reason AS fenced_why
FROM attachment a LEFT JOIN fence f ON f.event = a.fence;
