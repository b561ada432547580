-- One line a node: its posture, and the facts that it is judged by. The tables of
-- `model/posture` are the source; this says the same for whoever looks with SQL alone.
--
-- Whether a slot was approved, and is ready, is no fact of the state: a slot counts as free here
-- unless somebody holds it or its document disables it.
CREATE VIEW projected_posture AS
WITH slot AS (
  SELECT r.name AS node, c.state, c.slot IS NULL AND c.id IS NOT NULL AS whole,
    json_extract(s.value, '$.disabled') IS NOT NULL AS disabled
  FROM resource r
  JOIN json_each(r.normal, '$.spec.slots') s
  LEFT JOIN claim c ON c.node = r.name AND c.state <> 'freed'
    AND (c.slot IS NULL OR c.slot = json_extract(s.value, '$.name'))
  WHERE r.kind = 'node'
), tally AS (
  SELECT
    r.name AS node,
    json_extract(r.normal, '$.spec.admin.state') IN ('active', 'draining', 'evacuating') AS usable,
    coalesce(o.facts IS NOT NULL AND o.problem = '', 0) AS answered,
    json_extract(r.normal, '$.spec.admin.state') IN ('draining', 'evacuating')
      OR EXISTS (SELECT 1 FROM suspension u WHERE u.scope IN ('all', 'node/' || r.name)
        AND (u.until = '' OR u.until > strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))) AS draining,
    EXISTS (SELECT 1 FROM slot s WHERE s.node = r.name AND s.whole) AS whole,
    (SELECT count(*) FROM slot s WHERE s.node = r.name) AS slots,
    (SELECT count(*) FROM slot s
      WHERE s.node = r.name AND s.state IN ('held', 'releasing')) AS held,
    (SELECT count(*) FROM slot s
      WHERE s.node = r.name AND s.state IS NULL AND NOT s.disabled) AS free,
    (SELECT count(*) FROM slot s
      WHERE s.node = r.name AND s.state = 'cleanup_blocked') AS blocked
  FROM resource r LEFT JOIN observation o ON o.node = r.name
  WHERE r.kind = 'node'
)
SELECT *,
  CASE
    WHEN NOT usable THEN 'unavailable'
    WHEN NOT answered THEN 'unknown'
    WHEN blocked >= slots AND slots > 0 THEN 'cleanup_blocked'
    WHEN draining THEN 'draining'
    WHEN whole THEN 'exclusive'
    WHEN free = 0 AND held > 0 THEN 'full'
    WHEN free = 0 THEN 'unavailable'
    WHEN held > 0 OR blocked > 0 THEN 'partial'
    ELSE 'available'
  END AS posture
FROM tally;
