"""Claims and proofs: a claim is written before any host is touched, and only a proof ends it.

The guards in SQL hold these rules once more; what is refused there is a defect here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from reconciler.model.host.capacity import Claim, ClaimState, Shape
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.tables import resources
from reconciler.store.tables.accounts import keep_logins, keep_numbers
from reconciler.store.tables.proofs import prove
from reconciler.store.transaction import EventDraft, Record


def hold(record: Record, intent: WaveIntent) -> None:
    """Write who comes and who goes; what goes is billed no more, however long the cleanup takes."""
    make_claims(record, intent.claims, lambda claim: _placed(record, claim))
    gone = release_claims(record, intent.releasing, _retired_allocations(intent.steps))
    resources.release(record, gone)


def _placed(record: Record, claim: ClaimIntent) -> str:
    """The rule by which the plan has placed it."""
    change = record.changes.get(claim.ref)
    return change.placement.why if change and change.placement else ""


def _retired_allocations(steps: Iterable[Step]) -> Mapping[Ref, set[str]]:
    named: dict[Ref, set[str]] = {}
    for step in steps:
        id = step.item.allocation_id
        if step.order is Order.RETIRE and id is not None:
            named.setdefault(step.ref, set()).add(id)
    return named


def conclude(record: Record, outcome: WaveOutcome) -> None:
    """End claims: only those with a passed proof."""
    let_go(record, outcome.untouched)
    prove(record, outcome.proofs)


def make_claims(
    record: Record, claims: Sequence[ClaimIntent], why: Callable[[ClaimIntent], str]
) -> None:
    """A new allocation id of a ref is its next incarnation; who has a claim waits no more.

    Its login and its uid are written down with it: whoever clears up has to know them, whatever
    comes between. `why` tells by which rule it has come to its place.
    """
    fresh = _new_allocations(record, claims)
    sequences = record.write(
        *(
            EventDraft(
                type=EventType.CLAIMED, ref=claim.ref, after=_place(claim), reason=why(claim)
            )
            for claim in claims
        )
    )
    record.connection.executemany(
        "INSERT INTO claim (id, allocation_id, ref, node, slot, shape, state, since, tenant,"
        " project, event) VALUES (?, ?, ?, ?, ?, ?, 'held', ?, ?, ?, ?)",
        [
            (
                claim.id,
                claim.allocation_id,
                str(claim.ref),
                claim.node,
                claim.slot,
                claim.shape.value,
                record.at,
                claim.tenant,
                claim.project,
                sequence,
            )
            for claim, sequence in zip(claims, sequences, strict=True)
        ],
    )
    record.connection.executemany(
        "INSERT INTO claim_machine (claim, machine_id)"
        " SELECT ?, json_extract(facts, '$.machineId') FROM observation"
        " WHERE node = ? AND json_extract(facts, '$.machineId') <> ''",
        [(claim.id, claim.node) for claim in claims],
    )
    record.connection.executemany(
        "INSERT INTO incarnation (ref, count)"
        " SELECT ?1, 1 + max(coalesce((SELECT count FROM incarnation WHERE ref = ?1), 0),"
        " coalesce((SELECT number FROM counter_floor WHERE counter = 'incarnation'), 0)) WHERE true"
        " ON CONFLICT (ref) DO UPDATE SET count = excluded.count",
        [(ref,) for ref, _ in fresh],
    )
    for table in ("waiting", "lapsed"):
        record.connection.executemany(
            f"DELETE FROM {table} WHERE ref = ?", [(ref,) for ref, _ in fresh]
        )
    _go_on_with_leases(record, fresh)
    keep_logins(record, {(one.login, one.allocation_id, str(one.ref)) for one in claims})
    keep_numbers(record, claims)


def _go_on_with_leases(record: Record, fresh: Iterable[tuple[str, str]]) -> None:
    """Whoever takes the place of what still holds its own goes on with the lease of that.

    Its index is over claims that are not freed, and is used only where that is said.
    """
    record.connection.executemany(
        "INSERT INTO lease (allocation_id, since)"
        " SELECT ?2, min(coalesce(lease.since, claim.since)) FROM claim"
        " LEFT JOIN lease ON lease.allocation_id = claim.allocation_id"
        " WHERE claim.ref = ?1 AND claim.state <> 'freed' AND claim.state = 'held'"
        " AND claim.allocation_id <> ?2"
        " HAVING count(*) > 0",
        fresh,
    )


def release_claims(
    record: Record, releasing: Iterable[Ref], named: Mapping[Ref, Collection[str]]
) -> Collection[str]:
    """From now on these claims wait for a proof; returns the allocations given up by this.

    Of a ref in `named` only those allocations are given up, of any other ref all.
    """
    given_up = []
    for ref in releasing:
        rows = record.connection.execute(
            "SELECT id, allocation_id FROM claim WHERE ref = ? AND state <> 'freed'"
            " AND state <> 'releasing' ORDER BY id",
            (str(ref),),
        )
        only = named.get(ref)
        given_up += [(ref, *row) for row in rows if only is None or row[1] in only]
    record.write(
        *(
            EventDraft(type=EventType.CLAIM_RELEASING, ref=ref, after={"claim": claim})
            for ref, claim, _ in given_up
        )
    )
    record.connection.executemany(
        "UPDATE claim SET state = 'releasing', problem = '' WHERE id = ?",
        [(claim,) for _, claim, _ in given_up],
    )
    return {allocation for *_, allocation in given_up}


def let_go(record: Record, untouched: Mapping[str, Ref]) -> None:
    """Allocations, by id, of which their host shows nothing: a proof of that is what ends them."""
    named = {ref: {id for id, of in untouched.items() if of == ref} for ref in untouched.values()}
    release_claims(record, sorted(named), named)


def _new_allocations(record: Record, claims: Sequence[ClaimIntent]) -> list[tuple[str, str]]:
    """(ref, allocation id) that have no claim yet, each once."""
    known = "SELECT 1 FROM claim WHERE allocation_id = ? LIMIT 1"
    pairs = dict.fromkeys((str(claim.ref), claim.allocation_id) for claim in claims)
    return [pair for pair in pairs if not record.connection.execute(known, (pair[1],)).fetchone()]


def _place(claim: ClaimIntent) -> dict[str, str | int | None]:
    account = {"uid": claim.uid, "gid": claim.gid or 0} if claim.uid is not None else {}
    return {
        "claim": claim.id,
        "allocation": claim.allocation_id,
        "node": claim.node,
        "slot": claim.slot,
        "shape": claim.shape.value,
        **account,
    }


def read_claims(connection: sqlite3.Connection) -> tuple[Claim, ...]:
    rows = connection.execute(
        "SELECT id, claim.allocation_id, ref, node, slot, shape, state, claim.since, tenant,"
        " project, problem, coalesce(machine_id, ''), blocked_since, coalesce(lease.since, '')"
        " FROM claim LEFT JOIN claim_machine ON claim_machine.claim = id"
        " LEFT JOIN lease ON lease.allocation_id = claim.allocation_id"
        " WHERE state <> 'freed' ORDER BY node, slot, id"
    )
    return tuple(
        Claim(
            id=row[0],
            allocation_id=row[1],
            ref=stored_ref(row[2]),
            node=row[3],
            slot=row[4],
            shape=Shape(row[5]),
            state=ClaimState(row[6]),
            since=row[7],
            tenant=row[8],
            project=row[9],
            problem=row[10],
            machine_id=row[11],
            blocked_since=row[12],
            lease_since=row[13],
        )
        for row in rows
    )


TABLE = Table(hold=hold, conclude=conclude, read={"claims": read_claims})
