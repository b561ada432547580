-- What a proof is held against, and what was believed without one.

-- The least that a card was seen to have in use while nobody had its slot, by driver. What is
-- above that, when somebody has gone, is his.
CREATE TABLE idle_memory (
  gpu    TEXT NOT NULL CHECK (gpu <> ''),
  driver TEXT NOT NULL,
  mib    INTEGER NOT NULL CHECK (mib >= 0),
  at     TEXT NOT NULL,
  PRIMARY KEY (gpu, driver)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER idle_memory_is_new BEFORE INSERT ON idle_memory
WHEN EXISTS (SELECT 1 FROM idle_memory
  WHERE gpu = NEW.gpu AND driver = NEW.driver AND mib < NEW.mib)
BEGIN SELECT RAISE(ABORT, 'what a card uses when idle is never more than it was'); END;

CREATE TRIGGER idle_memory_only_falls BEFORE UPDATE ON idle_memory
WHEN NEW.gpu IS NOT OLD.gpu OR NEW.driver IS NOT OLD.driver OR NEW.mib > OLD.mib
BEGIN SELECT RAISE(ABORT, 'what a card uses when idle is never more than it was'); END;

-- On which machine a claim was made: after a tenant who was root, only another one is clean.
CREATE TABLE claim_machine (
  claim      TEXT PRIMARY KEY REFERENCES claim (id),
  machine_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER claim_machine_is_new BEFORE INSERT ON claim_machine
WHEN EXISTS (SELECT 1 FROM claim_machine WHERE claim = NEW.claim)
BEGIN SELECT RAISE(ABORT, 'a claim was made on one machine'); END;

CREATE TRIGGER claim_machine_is_final BEFORE UPDATE ON claim_machine
BEGIN SELECT RAISE(ABORT, 'a claim was made on one machine'); END;

CREATE TRIGGER claim_machine_stays BEFORE DELETE ON claim_machine
BEGIN SELECT RAISE(ABORT, 'a claim was made on one machine'); END;

-- Somebody's word ends what could not be proved, and nothing that runs or is being cleaned.
CREATE TRIGGER override_is_of_a_blocked_claim BEFORE INSERT ON override
WHEN NOT EXISTS (SELECT 1 FROM claim WHERE id = NEW.claim AND state = 'cleanup_blocked')
BEGIN SELECT RAISE(ABORT, 'only a blocked cleanup is overridden'); END;
