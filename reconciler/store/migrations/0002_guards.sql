-- The rules that must hold even where the code above is wrong.
--
-- `INSERT OR REPLACE` and `UPDATE OR REPLACE` remove the rows they collide with, and no DELETE
-- trigger fires for them (`recursive_triggers` is off unless a connection asks for it). BEFORE
-- triggers fire before the collision is resolved, so every rule of uniqueness stands here a
-- second time as a trigger. Rules that CHECK or foreign keys could hold stand here as well where
-- it matters: a connection may switch those off.

-- == claim: one holder a place ==

CREATE UNIQUE INDEX claim_one_live_per_slot ON claim (node, slot)
  WHERE state <> 'freed' AND slot IS NOT NULL;

-- NULL equals nothing in an index: whole nodes need one of their own.
CREATE UNIQUE INDEX claim_one_live_per_node ON claim (node)
  WHERE state <> 'freed' AND slot IS NULL;

CREATE TRIGGER claim_is_new BEFORE INSERT ON claim
WHEN EXISTS (SELECT 1 FROM claim WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a claim is never written over'); END;

CREATE TRIGGER claim_begins_held BEFORE INSERT ON claim
WHEN NEW.state IS NOT 'held'
  OR NEW.freed_at IS NOT NULL OR NEW.proof IS NOT NULL OR NEW.override IS NOT NULL
  OR (NEW.shape IS 'baremetal') <> (NEW.slot IS NULL)
BEGIN SELECT RAISE(ABORT, 'a claim begins as held'); END;

CREATE TRIGGER claim_slot_is_free BEFORE INSERT ON claim
WHEN NEW.slot IS NOT NULL AND EXISTS (
  SELECT 1 FROM claim WHERE node = NEW.node AND slot = NEW.slot AND state <> 'freed')
BEGIN SELECT RAISE(ABORT, 'the slot has a live claim'); END;

CREATE TRIGGER claim_node_is_not_exclusive BEFORE INSERT ON claim
WHEN EXISTS (
  SELECT 1 FROM claim WHERE node = NEW.node AND slot IS NULL AND state <> 'freed')
BEGIN SELECT RAISE(ABORT, 'the node is claimed whole'); END;

CREATE TRIGGER claim_node_is_empty BEFORE INSERT ON claim
WHEN NEW.slot IS NULL AND EXISTS (
  SELECT 1 FROM claim WHERE node = NEW.node AND slot IS NOT NULL AND state <> 'freed')
BEGIN SELECT RAISE(ABORT, 'slots of the node have live claims'); END;

CREATE TRIGGER claim_has_an_event BEFORE INSERT ON claim
WHEN NOT EXISTS (
  SELECT 1 FROM event WHERE sequence = NEW.event AND type = 'claimed' AND ref = NEW.ref)
BEGIN SELECT RAISE(ABORT, 'a claim begins with an event that says so'); END;

-- == claim: it ends only by proof, or by somebody's word ==

CREATE TRIGGER claim_place_is_fixed BEFORE UPDATE ON claim
WHEN NEW.id IS NOT OLD.id OR NEW.allocation_id IS NOT OLD.allocation_id
  OR NEW.node IS NOT OLD.node OR NEW.slot IS NOT OLD.slot OR NEW.shape IS NOT OLD.shape
  OR NEW.since IS NOT OLD.since OR NEW.event IS NOT OLD.event
  OR NEW.tenant IS NOT OLD.tenant OR NEW.project IS NOT OLD.project
BEGIN SELECT RAISE(ABORT, 'a claim never moves'); END;

CREATE TRIGGER claim_freed_is_final BEFORE UPDATE ON claim
WHEN OLD.state = 'freed'
BEGIN SELECT RAISE(ABORT, 'a freed claim never changes again'); END;

CREATE TRIGGER claim_is_freed_from_a_release BEFORE UPDATE ON claim
WHEN NEW.state = 'freed' AND OLD.state = 'held'
BEGIN SELECT RAISE(ABORT, 'a claim is released before it is freed'); END;

-- Recorded after the claim, for the same allocation and place: an older proof, or that of a
-- neighbour, says nothing about what this tenant left behind.
CREATE TRIGGER claim_is_freed_by_proof BEFORE UPDATE ON claim
WHEN OLD.state <> 'freed' AND NEW.state = 'freed' AND (NEW.proof IS NULL) = (NEW.override IS NULL)
  OR NEW.state = 'freed' AND NEW.proof IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM proof WHERE id = NEW.proof AND passed = 1
      AND allocation_id = OLD.allocation_id AND node = OLD.node AND slot IS OLD.slot
      AND event > OLD.event)
  OR NEW.state = 'freed' AND NEW.override IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM override WHERE id = NEW.override AND claim = OLD.id AND event > OLD.event)
BEGIN SELECT RAISE(ABORT, 'a claim is freed only by a passed proof or a recorded override'); END;

CREATE TRIGGER claim_end_belongs_to_freed BEFORE UPDATE ON claim
WHEN (NEW.state = 'freed') <> (NEW.freed_at IS NOT NULL)
  OR NEW.state <> 'freed' AND (NEW.proof IS NOT NULL OR NEW.override IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'only a freed claim has an end'); END;

CREATE TRIGGER claim_stays BEFORE DELETE ON claim
BEGIN SELECT RAISE(ABORT, 'a claim is never deleted'); END;

-- == proof and override: evidence is written once, and only with its event ==

CREATE TRIGGER proof_is_new BEFORE INSERT ON proof
WHEN EXISTS (SELECT 1 FROM proof WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a proof is never written over'); END;

CREATE TRIGGER proof_has_an_event BEFORE INSERT ON proof
WHEN NOT EXISTS (SELECT 1 FROM event WHERE sequence = NEW.event AND type = 'proved')
BEGIN SELECT RAISE(ABORT, 'a proof is recorded with an event that says so'); END;

-- `passed` is no opinion: it is what the checks say, and no checks prove nothing.
CREATE TRIGGER proof_is_honest BEFORE INSERT ON proof
WHEN NEW.passed IS NOT (
  json_array_length(NEW.checks) > 0 AND NOT EXISTS (
    SELECT 1 FROM json_each(NEW.checks)
    WHERE json_extract(value, '$.result') IS NOT 'pass'))
BEGIN SELECT RAISE(ABORT, 'a proof passes when all of its checks do'); END;

CREATE TRIGGER proof_is_final BEFORE UPDATE ON proof
BEGIN SELECT RAISE(ABORT, 'a proof never changes'); END;

CREATE TRIGGER proof_stays BEFORE DELETE ON proof
BEGIN SELECT RAISE(ABORT, 'a proof is never deleted'); END;

CREATE TRIGGER override_is_new BEFORE INSERT ON override
WHEN EXISTS (SELECT 1 FROM override WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'an override is never written over'); END;

CREATE TRIGGER override_is_signed BEFORE INSERT ON override
WHEN trim(coalesce(NEW.actor, '')) = '' OR trim(coalesce(NEW.reason, '')) = ''
BEGIN SELECT RAISE(ABORT, 'an override has an actor and a reason'); END;

CREATE TRIGGER override_has_an_event BEFORE INSERT ON override
WHEN NOT EXISTS (
  SELECT 1 FROM event WHERE sequence = NEW.event AND type = 'overridden'
    AND actor = NEW.actor AND reason = NEW.reason)
BEGIN SELECT RAISE(ABORT, 'an override is recorded with an event that says so'); END;

CREATE TRIGGER override_is_final BEFORE UPDATE ON override
BEGIN SELECT RAISE(ABORT, 'an override never changes'); END;

CREATE TRIGGER override_stays BEFORE DELETE ON override
BEGIN SELECT RAISE(ABORT, 'an override is never deleted'); END;

-- == event: one more at the end, and nothing else ==

CREATE TRIGGER event_is_next BEFORE INSERT ON event
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM event)
BEGIN SELECT RAISE(ABORT, 'events follow one another'); END;

CREATE TRIGGER event_is_final BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'an event never changes'); END;

CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;

-- == resource: forgotten only in the open ==

-- A table emptied by hand would read as a fleet that never was, and all of it would be made again.
CREATE TRIGGER resource_is_forgotten_by_event BEFORE DELETE ON resource
WHEN 'forgotten' IS NOT (
  SELECT type FROM event WHERE ref = OLD.ref AND type IN ('recorded', 'renamed', 'forgotten')
  ORDER BY sequence DESC LIMIT 1)
BEGIN SELECT RAISE(ABORT, 'a resource is forgotten with an event that says so'); END;

-- What is not proved gone stays on the books.
CREATE TRIGGER resource_holds_claims BEFORE DELETE ON resource
WHEN EXISTS (SELECT 1 FROM claim WHERE ref = OLD.ref AND state <> 'freed')
BEGIN SELECT RAISE(ABORT, 'a resource with live claims is not forgotten'); END;

CREATE TRIGGER resource_place_is_free BEFORE INSERT ON resource
WHEN EXISTS (SELECT 1 FROM resource WHERE rowid = NEW.rowid AND ref IS NOT NEW.ref)
BEGIN SELECT RAISE(ABORT, 'a resource never takes the place of another'); END;

CREATE TRIGGER resource_keeps_its_place BEFORE UPDATE ON resource
WHEN NEW.rowid IS NOT OLD.rowid
  OR NEW.ref IS NOT OLD.ref AND EXISTS (SELECT 1 FROM resource WHERE ref = NEW.ref)
BEGIN SELECT RAISE(ABORT, 'a resource never takes the place of another'); END;

-- == what is counted once and for all ==

CREATE TRIGGER state_is_one BEFORE INSERT ON state
WHEN EXISTS (SELECT 1 FROM state)
BEGIN SELECT RAISE(ABORT, 'a state has one identity'); END;

CREATE TRIGGER state_is_final BEFORE UPDATE ON state
BEGIN SELECT RAISE(ABORT, 'the identity of a state never changes'); END;

CREATE TRIGGER state_stays BEFORE DELETE ON state
BEGIN SELECT RAISE(ABORT, 'the identity of a state is never deleted'); END;

CREATE TRIGGER plan_is_used_once BEFORE INSERT ON plan
WHEN EXISTS (SELECT 1 FROM plan WHERE fingerprint = NEW.fingerprint)
BEGIN SELECT RAISE(ABORT, 'a plan is used once'); END;

CREATE TRIGGER plan_stays_used BEFORE DELETE ON plan
BEGIN SELECT RAISE(ABORT, 'a used plan stays used'); END;

CREATE TRIGGER plan_is_final BEFORE UPDATE ON plan
BEGIN SELECT RAISE(ABORT, 'a used plan stays used'); END;

CREATE TRIGGER incarnation_is_new BEFORE INSERT ON incarnation
WHEN EXISTS (SELECT 1 FROM incarnation WHERE ref = NEW.ref AND count >= NEW.count)
BEGIN SELECT RAISE(ABORT, 'an incarnation is never counted again'); END;

CREATE TRIGGER incarnation_only_grows BEFORE UPDATE ON incarnation
WHEN NEW.ref IS NOT OLD.ref OR NEW.count <= OLD.count
BEGIN SELECT RAISE(ABORT, 'an incarnation is never counted again'); END;

CREATE TRIGGER incarnation_stays BEFORE DELETE ON incarnation
BEGIN SELECT RAISE(ABORT, 'an incarnation is never counted again'); END;

CREATE TRIGGER login_is_new BEFORE INSERT ON login
WHEN EXISTS (SELECT 1 FROM login WHERE login = NEW.login)
BEGIN SELECT RAISE(ABORT, 'a login is never given again'); END;

CREATE TRIGGER login_stays BEFORE DELETE ON login
BEGIN SELECT RAISE(ABORT, 'a login is never given again'); END;

CREATE TRIGGER login_is_final BEFORE UPDATE ON login
BEGIN SELECT RAISE(ABORT, 'a login is never given again'); END;

-- == usage_record: what was used is not argued about later ==

CREATE TRIGGER usage_record_is_new BEFORE INSERT ON usage_record
WHEN EXISTS (
  SELECT 1 FROM usage_record WHERE allocation_id = NEW.allocation_id AND started = NEW.started)
BEGIN SELECT RAISE(ABORT, 'a usage record is never written over'); END;

CREATE TRIGGER usage_record_only_ends BEFORE UPDATE ON usage_record
WHEN OLD.ended <> '' OR NEW.ended = ''
  OR NEW.allocation_id IS NOT OLD.allocation_id OR NEW.started IS NOT OLD.started
  OR NEW.gpus IS NOT OLD.gpus OR NEW.price_per_gpu_hour IS NOT OLD.price_per_gpu_hour
  OR NEW.currency IS NOT OLD.currency OR NEW.project IS NOT OLD.project
BEGIN SELECT RAISE(ABORT, 'a usage record only ends'); END;

CREATE TRIGGER usage_record_stays BEFORE DELETE ON usage_record
BEGIN SELECT RAISE(ABORT, 'a usage record is never deleted'); END;
