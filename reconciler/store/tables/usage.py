"""Usage: when an allocation is billed, and at which price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Change
from reconciler.model.state.world import Recorded
from reconciler.store.registry.contract import Table
from reconciler.store.transaction import Record


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    begin_use(record, recorded)
    count_lost(record, recorded)


def begin_use(record: Record, recorded: Sequence[Recorded]) -> None:
    """Begin billing, at the price of this moment, when an allocation becomes active.

    It begins anew after a quarantine.
    """
    for one in recorded:
        if not one.id or one.shape is None or one.phase is not Phase.ACTIVE:
            continue
        change = record.changes.get(one.ref)
        gpus = (change.gpus if change else 0) or len(one.slots)
        currency, price = _price(change, gpus)
        record.connection.execute(
            "INSERT INTO usage_record (allocation_id, started, ref, tenant, project, node, shape,"
            " gpus, price_per_gpu_hour, currency)"
            " SELECT ?1, ?2, ?3, coalesce((SELECT tenant FROM claim WHERE allocation_id = ?1), ''),"
            " ?4, ?5, ?6, ?7, ?8, ?9"
            " WHERE NOT EXISTS (SELECT 1 FROM usage_record WHERE allocation_id = ?1"
            " AND (ended = '' OR started = ?2))"
            " AND NOT EXISTS (SELECT 1 FROM resource WHERE kind = 'node' AND name = ?5"
            " AND json_extract(normal, '$.spec.admin.state') = 'lost')",
            (
                one.id,
                record.at,
                str(one.ref),
                one.ref.project,
                one.node,
                one.shape.value,
                gpus,
                price,
                currency,
            ),
        )


def _price(change: Change | None, gpus: int) -> tuple[str, str]:
    """(currency, price a GPU and hour); both empty if nobody named a price."""
    if change is None or not change.rate_per_hour or not gpus:
        return "", ""
    currency, whole = min(change.rate_per_hour.items())
    return currency, format((Decimal(whole) / gpus).normalize(), "f")


def end_use(record: Record, allocations: Iterable[str]) -> None:
    record.connection.executemany(
        "UPDATE usage_record SET ended = ? WHERE allocation_id = ? AND ended = ''",
        [(record.at, allocation) for allocation in allocations],
    )


def count_lost(record: Record, recorded: Sequence[Recorded]) -> None:
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


TABLE = Table(keep=keep)
