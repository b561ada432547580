"""Ends, written: what is shut off and can come back, and what has gone since its time was over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Cause, Change, Step
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.world import Recorded
from reconciler.store.transaction import EventDraft, Record


def quarantine(record: Record, steps: Sequence[Step], changes: Mapping[Ref, Change]) -> None:
    """From now on these are not used, so nothing is billed, whatever their hosts do about it.

    Until a host has shown it, nobody knows: it is asked again.
    """
    for ref in sorted({step.ref for step in steps}):
        change = changes.get(ref)
        if change is None or not change.undo_minutes:
            continue
        phase, until = record.connection.execute(
            "SELECT phase, undo_until FROM resource WHERE ref = ?", (str(ref),)
        ).fetchone()
        if phase != Phase.QUARANTINED:
            until = _later(record.at, change.undo_minutes)
            record.write(
                EventDraft(
                    type=EventType.RECORDED,
                    ref=ref,
                    before={"phase": phase},
                    after={"phase": Phase.QUARANTINED.value, "undo_until": until},
                )
            )
        record.connection.execute(
            "UPDATE resource SET phase = ?, undo_until = ?, basis = '' WHERE ref = ?",
            (Phase.QUARANTINED.value, until, str(ref)),
        )
        end_use(record, [change.allocation_id])


def _later(at: str, minutes: int) -> str:
    moment = parse_moment(at)
    if moment is None:
        raise ValueError(f"{at!r} is no time")
    return format_moment(moment + timedelta(minutes=minutes))


def end_use(record: Record, allocations: Iterable[str]) -> None:
    record.connection.executemany(
        "UPDATE usage_record SET ended = ? WHERE allocation_id = ? AND ended = ''",
        [(record.at, allocation) for allocation in allocations],
    )


def count_lost(record: Record, recorded: Iterable[Recorded]) -> None:
    """Nobody pays for what stands on a host that was given up for lost, until it is back (rule 11).

    What stands there was not touched meanwhile, so its price is that of before.
    """
    for one in recorded:
        if one.ref.kind != "node":
            continue
        if one.normal["spec"].get("admin", {}).get("state") == LOST:
            record.connection.execute(
                "UPDATE usage_record SET ended = ? WHERE node = ? AND ended = ''",
                (record.at, one.ref.name),
            )
        else:
            record.connection.execute(_USED_ANEW, (record.at, one.ref.name))


LOST = "lost"

_USED_ANEW = (
    "INSERT INTO usage_record (allocation_id, started, ref, tenant, project, node, shape, gpus,"
    " price_per_gpu_hour, currency)"
    " SELECT u.allocation_id, ?1, r.ref, u.tenant, u.project, u.node, u.shape, u.gpus,"
    " u.price_per_gpu_hour, u.currency FROM resource r JOIN usage_record u"
    " ON u.allocation_id = r.id AND u.started ="
    " (SELECT max(started) FROM usage_record WHERE allocation_id = r.id)"
    " WHERE r.kind = 'allocation' AND r.node = ?2 AND r.phase = 'active'"
    " AND u.ended <> '' AND u.started <> ?1"
)


def lapse(record: Record, forgotten: Iterable[Ref], changes: Mapping[Ref, Change]) -> None:
    """Those of them that have gone since their time was over: their files make them no more."""
    gone = [ref for ref in forgotten if (one := changes.get(ref)) and one.cause is Cause.EXPIRED]
    record.connection.executemany(
        "INSERT INTO lapsed (ref, since) SELECT ?1, ?2"
        " WHERE NOT EXISTS (SELECT 1 FROM resource WHERE ref = ?1)"
        " ON CONFLICT (ref) DO UPDATE SET since = excluded.since",
        [(str(ref), record.at) for ref in gone],
    )
