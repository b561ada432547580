"""Consistency: what cannot be in a state while every guard works, and what it means if it is."""

from __future__ import annotations

UNSOUND = (
    (
        "SELECT node || coalesce('/' || slot, '') FROM claim WHERE state <> 'freed'"
        " GROUP BY node, slot HAVING count(*) > 1",
        "more than one live claim",
    ),
    (
        "SELECT node FROM claim WHERE state <> 'freed' GROUP BY node"
        " HAVING count(slot) > 0 AND count(slot) < count(*)",
        "claimed whole and by the slot at once",
    ),
    (
        "SELECT claim.id FROM claim LEFT JOIN proof ON proof.id = claim.proof AND proof.passed = 1"
        " AND proof.allocation_id = claim.allocation_id AND proof.node = claim.node"
        " AND proof.slot IS claim.slot AND proof.event > claim.event"
        " LEFT JOIN override ON override.id = claim.override AND override.claim = claim.id"
        " WHERE state = 'freed' AND proof.id IS NULL AND override.id IS NULL",
        "a claim freed without proof or override",
    ),
    (
        "SELECT storage FROM volume WHERE state <> 'gone' GROUP BY storage HAVING count(*) > 1",
        "more than one volume",
    ),
    (
        "SELECT DISTINCT a.storage FROM attachment a JOIN attachment o ON o.volume = a.volume"
        " AND o.allocation_id <> a.allocation_id AND o.ended = '' WHERE a.ended = ''"
        " AND (a.access = 'single_writer'"
        " OR a.mode = 'rw' AND o.mode = 'rw' AND a.access <> 'multi_writer')",
        "attached to more than may have it",
    ),
    (
        "SELECT DISTINCT storage FROM attachment WHERE ended = '' AND volume NOT IN"
        " (SELECT id FROM volume WHERE state IN ('pending', 'made'))",
        "attached, though there is nothing of it to be attached",
    ),
    (
        "SELECT storage || ' of ' || ref FROM attachment a WHERE ended <> '' AND step IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM proof WHERE id = a.proof AND passed = 1"
        " AND allocation_id = a.allocation_id)"
        " AND NOT EXISTS (SELECT 1 FROM fence WHERE event = a.fence AND volume = a.volume"
        " AND allocation_id = a.allocation_id)",
        "detached without anything that shows it",
    ),
    (
        "SELECT ref FROM event e WHERE type = 'recorded'"
        " AND NOT EXISTS (SELECT 1 FROM resource WHERE ref = e.ref)"
        " AND NOT EXISTS (SELECT 1 FROM event l WHERE l.ref = e.ref AND l.sequence > e.sequence)"
        " AND NOT EXISTS (SELECT 1 FROM event l WHERE l.type = 'renamed'"
        " AND l.sequence > e.sequence AND json_extract(l.before, '$.ref') = e.ref)",
        "recorded, never forgotten, and not there",
    ),
    *(
        (
            f"SELECT {name} FROM {table} WHERE event > (SELECT coalesce(max(last), 0) FROM"
            f" event_archive) AND NOT EXISTS (SELECT 1 FROM event WHERE sequence = {table}.event"
            f" AND type = '{type_}')",
            f"{article} {table} without its event",
        )
        for article, table, name, type_ in (
            ("a", "claim", "id", "claimed"),
            ("a", "proof", "id", "proved"),
            ("an", "override", "id", "overridden"),
            ("a", "volume", "storage", "volume_pending"),
            ("an", "attachment", "storage", "attaching"),
            ("a", "fence", "volume", "fenced"),
            ("a", "reopening", "volume", "reopening"),
        )
    ),
)
"""Queries that find nothing while every guard stands, and what it means if they do."""
