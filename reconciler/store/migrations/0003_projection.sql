-- Projected: what people are shown of the four truths, put side by side and never merged.
-- Nobody writes these views and planning never reads them; they may be dropped and made again.

-- One line an allocation: recorded | claimed | observed | executed.
CREATE VIEW projected_allocation AS
SELECT
  r.ref, r.id, r.login, r.node, r.slots, r.shape,
  r.phase AS recorded_phase, r.applied_at AS recorded_at, r."commit" AS recorded_commit,
  (SELECT count(*) FROM claim c WHERE c.allocation_id = r.id AND c.state <> 'freed') AS live_claims,
  (SELECT max(c.problem) FROM claim c
    WHERE c.allocation_id = r.id AND c.state = 'cleanup_blocked') AS cleanup_problem,
  o.at AS observed_at, o.problem AS observed_problem, o.unreachable_since,
  s.verb AS last_verb, s.state AS last_step_state, s.run AS last_run
FROM resource r
LEFT JOIN observation o ON o.node = r.node
LEFT JOIN step s ON s.run = (SELECT max(run) FROM step WHERE ref = r.ref)
  AND s.ref = r.ref
  AND s.id = (SELECT id FROM step t WHERE t.ref = r.ref AND t.run = s.run
              ORDER BY t.wave DESC, t.finished DESC, t.id LIMIT 1)
WHERE r.kind = 'allocation';

-- One line a slot that git describes: who holds it, if anybody.
CREATE VIEW projected_slot AS
SELECT
  r.name AS node, json_extract(s.value, '$.name') AS slot,
  json_extract(s.value, '$.gpu.uuid') AS gpu_uuid,
  c.id AS claim, c.state AS claim_state, c.ref, c.allocation_id, c.since, c.problem
FROM resource r
JOIN json_each(r.normal, '$.spec.slots') s
LEFT JOIN claim c ON c.node = r.name AND c.state <> 'freed'
  AND (c.slot IS NULL OR c.slot = json_extract(s.value, '$.name'))
WHERE r.kind = 'node';

-- One line a node: the facts from which its posture is judged, not the judgement.
CREATE VIEW projected_node AS
SELECT
  r.name AS node, r.phase AS recorded_phase,
  json_extract(r.normal, '$.spec.admin.state') AS admin_state,
  o.at AS observed_at, o.problem AS observed_problem, o.unreachable_since,
  (SELECT count(*) FROM json_each(r.normal, '$.spec.slots')) AS slots,
  (SELECT count(*) FROM claim c
    WHERE c.node = r.name AND c.state <> 'freed' AND c.slot IS NOT NULL) AS slots_claimed,
  EXISTS (SELECT 1 FROM claim c
    WHERE c.node = r.name AND c.state <> 'freed' AND c.slot IS NULL) AS claimed_whole,
  (SELECT count(*) FROM claim c
    WHERE c.node = r.name AND c.state = 'cleanup_blocked') AS cleanup_blocked,
  (SELECT count(*) FROM step s
    WHERE s.node = r.name AND s.state = 'open') AS open_steps
FROM resource r
LEFT JOIN observation o ON o.node = r.name
WHERE r.kind = 'node';
