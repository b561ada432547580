-- The four truths and what stands beside them. Table and column names are those of `model/`.
--
-- Small tables have no rowid, as `INSERT OR REPLACE` with a stolen rowid pushes out a row that no
-- DELETE trigger sees. Those with long rows keep theirs, and a guard against that.

PRAGMA application_id = 1196447041;  -- 'GPUA': a file of ours, by its first page

-- Which state this is. Its id stands in every descriptor on every host.
CREATE TABLE state (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  state_id   TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

-- What happened, by whom, because of which commit. Append-only; `digest` chains over the one
-- before, so that nothing can be changed in the middle without all that follows showing it.
CREATE TABLE event (
  sequence INTEGER PRIMARY KEY,
  at       TEXT NOT NULL,
  type     TEXT NOT NULL,
  actor    TEXT NOT NULL,
  ref      TEXT NOT NULL,
  "commit" TEXT NOT NULL,
  before   TEXT,
  after    TEXT,
  reason   TEXT NOT NULL,
  run      TEXT NOT NULL,
  digest   TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_ref ON event (ref, sequence);
CREATE INDEX event_by_type ON event (type, sequence);

-- Recorded: every resource as last applied.
CREATE TABLE resource (
  ref        TEXT PRIMARY KEY,
  kind       TEXT NOT NULL,
  project    TEXT NOT NULL,
  name       TEXT NOT NULL,
  digest     TEXT NOT NULL,
  basis      TEXT NOT NULL,
  file       TEXT NOT NULL,
  "commit"   TEXT NOT NULL,
  applied_at TEXT NOT NULL,
  generation INTEGER NOT NULL CHECK (generation >= 1),
  phase      TEXT NOT NULL CHECK (phase IN ('providing', 'active', 'failed', 'releasing', 'released')),
  protect    INTEGER NOT NULL CHECK (protect IN (0, 1)),
  id         TEXT NOT NULL,
  login      TEXT NOT NULL,
  node       TEXT NOT NULL,
  slots      TEXT NOT NULL CHECK (json_valid(slots)),
  shape      TEXT CHECK (shape IN ('baremetal', 'gpu_slice')),
  problem    TEXT NOT NULL,
  normal     TEXT NOT NULL CHECK (json_valid(normal)),
  facts      TEXT NOT NULL CHECK (json_valid(facts))
) STRICT;
-- A plan of an unchanged fleet needs these columns of every resource, and no other.
CREATE INDEX resource_digests ON resource (kind, project, name, digest, basis);

-- Who holds what. A row is made before any host is touched, and is never deleted.
CREATE TABLE claim (
  id            TEXT PRIMARY KEY,
  allocation_id TEXT NOT NULL,
  ref           TEXT NOT NULL,
  node          TEXT NOT NULL,
  slot          TEXT,
  shape         TEXT NOT NULL CHECK (shape IN ('baremetal', 'gpu_slice')),
  state         TEXT NOT NULL CHECK (state IN ('held', 'releasing', 'cleanup_blocked', 'freed')),
  since         TEXT NOT NULL,
  tenant        TEXT NOT NULL,
  project       TEXT NOT NULL,
  problem       TEXT NOT NULL DEFAULT '',
  event         INTEGER NOT NULL REFERENCES event (sequence),
  freed_at      TEXT,
  proof         TEXT REFERENCES proof (id),
  override      TEXT REFERENCES override (id),
  CHECK ((shape = 'baremetal') = (slot IS NULL)),
  CHECK ((state = 'freed') = (freed_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX claim_by_ref ON claim (ref) WHERE state <> 'freed';
CREATE INDEX claim_by_allocation ON claim (allocation_id);

-- That a slot was left clean, or not: the checks as they were measured on the host.
CREATE TABLE proof (
  id            TEXT PRIMARY KEY,
  allocation_id TEXT NOT NULL,
  node          TEXT NOT NULL,
  slot          TEXT,
  at            TEXT NOT NULL,
  boot_id       TEXT NOT NULL,
  checks        TEXT NOT NULL CHECK (json_valid(checks)),
  source        TEXT NOT NULL,
  passed        INTEGER NOT NULL CHECK (passed IN (0, 1)),
  event         INTEGER NOT NULL REFERENCES event (sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX proof_by_allocation ON proof (allocation_id, node);

-- Somebody's word, in place of a proof.
CREATE TABLE override (
  id     TEXT PRIMARY KEY,
  claim  TEXT NOT NULL REFERENCES claim (id),
  actor  TEXT NOT NULL CHECK (trim(actor) <> ''),
  reason TEXT NOT NULL CHECK (trim(reason) <> ''),
  at     TEXT NOT NULL,
  event  INTEGER NOT NULL REFERENCES event (sequence)
) STRICT, WITHOUT ROWID;

-- Observed: the last answer of each node. No `facts` = unknown, which is not the same as none.
CREATE TABLE observation (
  node              TEXT PRIMARY KEY,
  at                TEXT NOT NULL,
  facts             TEXT CHECK (facts IS NULL OR json_valid(facts)),
  digest            TEXT NOT NULL,
  problem           TEXT NOT NULL,
  message           TEXT NOT NULL,
  unreachable_since TEXT NOT NULL
) STRICT;

-- Execution: what was asked of hosts, by which plan, and what came of it.
CREATE TABLE run (
  number         INTEGER PRIMARY KEY,
  id             TEXT NOT NULL UNIQUE,
  actor          TEXT NOT NULL,
  fingerprint    TEXT NOT NULL,
  desired_digest TEXT NOT NULL,
  serial         INTEGER NOT NULL,
  "commit"       TEXT NOT NULL,
  state          TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'interrupted')),
  started        TEXT NOT NULL,
  progress       TEXT NOT NULL,
  ended          TEXT NOT NULL DEFAULT '',
  problem        TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE step (
  run      TEXT NOT NULL REFERENCES run (id),
  id       TEXT NOT NULL,
  wave     INTEGER NOT NULL,
  ref      TEXT NOT NULL,
  verb     TEXT NOT NULL,
  node     TEXT NOT NULL,
  "order"  TEXT NOT NULL CHECK ("order" IN ('retire', 'provide', 'enrich')),
  work     TEXT NOT NULL,  -- digest of what the host was told and of what it must show
  state    TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed', 'unknown')),
  started  TEXT NOT NULL,
  finished TEXT NOT NULL DEFAULT '',
  changed  INTEGER NOT NULL DEFAULT 0,
  problem  TEXT NOT NULL DEFAULT '',
  message  TEXT NOT NULL DEFAULT '',
  log      TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX step_without_end ON step (node) WHERE state IN ('open', 'unknown');
CREATE INDEX step_by_ref ON step (ref, run);

-- Saved plans that were used: each is good for one apply.
CREATE TABLE plan (
  fingerprint TEXT PRIMARY KEY,
  run         TEXT NOT NULL REFERENCES run (id),
  used_at     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Refs that found no capacity, by first sight: they are served in this order.
CREATE TABLE waiting (
  ref   TEXT PRIMARY KEY,
  since TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How often a ref was created, and every login ever given: ids and logins are never used again.
CREATE TABLE incarnation (
  ref   TEXT PRIMARY KEY,
  count INTEGER NOT NULL CHECK (count >= 1)
) STRICT, WITHOUT ROWID;

CREATE TABLE login (
  login         TEXT PRIMARY KEY,
  allocation_id TEXT NOT NULL,
  ref           TEXT NOT NULL,
  since         TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What people said: leave for a held change, something taken away for now, a drift accepted.
CREATE TABLE consent (
  id          TEXT PRIMARY KEY,
  ref         TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  actor       TEXT NOT NULL CHECK (trim(actor) <> ''),
  reason      TEXT NOT NULL CHECK (trim(reason) <> ''),
  since       TEXT NOT NULL,
  until       TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE suspension (
  scope  TEXT PRIMARY KEY,
  reason TEXT NOT NULL CHECK (trim(reason) <> ''),
  actor  TEXT NOT NULL CHECK (trim(actor) <> ''),
  since  TEXT NOT NULL,
  until  TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE accepted_drift (
  ref    TEXT NOT NULL,
  path   TEXT NOT NULL,
  fact   TEXT,
  actor  TEXT NOT NULL CHECK (trim(actor) <> ''),
  reason TEXT NOT NULL CHECK (trim(reason) <> ''),
  since  TEXT NOT NULL,
  until  TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (ref, path)
) STRICT, WITHOUT ROWID;

-- Money. Prices are copied when use begins: neither use nor price can be made up later.
-- Decimals are text, as they are in the specs.
CREATE TABLE usage_record (
  allocation_id      TEXT NOT NULL,
  started            TEXT NOT NULL,
  ended              TEXT NOT NULL DEFAULT '',
  ref                TEXT NOT NULL,
  tenant             TEXT NOT NULL,
  project            TEXT NOT NULL,
  node               TEXT NOT NULL,
  shape              TEXT NOT NULL,
  gpus               INTEGER NOT NULL,
  price_per_gpu_hour TEXT NOT NULL,
  currency           TEXT NOT NULL,
  PRIMARY KEY (allocation_id, started)
) STRICT, WITHOUT ROWID;
