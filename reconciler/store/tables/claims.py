"""Claims and proofs, written: a claim before any host is touched, an end only by proof.

The guards in SQL hold these rules once more; what is refused there is a defect here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from reconciler.model.canonical import canonical
from reconciler.model.codec import encode
from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import CheckResult, Proof
from reconciler.model.plan.plan import ClaimIntent
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.event import EventType
from reconciler.store.tables.accounts import keep_logins, keep_numbers
from reconciler.store.transaction import EventDraft, Record


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


def prove(record: Record, proofs: Sequence[Proof]) -> None:
    """Keep proofs. A passed one frees the claim it is about, any other one blocks it.

    What was measured once is kept once: a clock that stands still, or was set back, may tell the
    same moment again.
    """
    known = _known_proofs(record, proofs)
    kept = [proof for proof in proofs if proof.id not in known]
    sequences = record.write(*(_proved(record, proof) for proof in kept))
    record.connection.executemany(
        "INSERT INTO proof (id, allocation_id, node, slot, at, boot_id, checks, source, passed,"
        " event) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                proof.id,
                proof.allocation_id,
                proof.node,
                proof.slot,
                proof.at,
                proof.boot_id,
                canonical(encode(proof.checks)),
                proof.source,
                int(proof.passed),
                sequence,
            )
            for proof, sequence in zip(kept, sequences, strict=True)
        ],
    )
    _free(record, [proof for proof in proofs if proof.passed])
    _block(record, [proof for proof in proofs if not proof.passed])


def _known_proofs(record: Record, proofs: Iterable[Proof]) -> frozenset[str]:
    ids = canonical([proof.id for proof in proofs])
    rows = record.connection.execute(
        "SELECT id FROM proof WHERE id IN (SELECT value FROM json_each(?))", (ids,)
    )
    return frozenset(id for (id,) in rows)


def _free(record: Record, proofs: Iterable[Proof]) -> None:
    freed = [(proof, *row) for proof in proofs for row in _waiting_for(record, proof)]
    record.write(
        *(
            EventDraft(
                type=EventType.CLAIM_FREED,
                ref=parse_ref(ref),
                after={"claim": claim, "proof": proof.id},
            )
            for proof, claim, ref, _, _ in freed
        )
    )
    record.connection.executemany(
        "UPDATE claim SET state = 'freed', freed_at = ?, proof = ?, problem = '' WHERE id = ?",
        [(record.at, proof.id, claim) for proof, claim, *_ in freed],
    )


def _block(record: Record, proofs: Iterable[Proof]) -> None:
    blocked = [
        (claim, ref, words)
        for proof in proofs
        for words in (_unproved(proof),)
        for claim, ref, state, problem in _waiting_for(record, proof)
        if (state, problem) != (ClaimState.CLEANUP_BLOCKED.value, words)
    ]
    record.write(
        *(
            EventDraft(
                type=EventType.CLAIM_BLOCKED,
                ref=parse_ref(ref),
                after={"claim": claim},
                reason=words,
            )
            for claim, ref, words in blocked
        )
    )
    record.connection.executemany(
        "UPDATE claim SET problem = ?1, blocked_since = CASE state WHEN 'cleanup_blocked'"
        " THEN blocked_since ELSE ?2 END, state = 'cleanup_blocked' WHERE id = ?3",
        [(words, record.at, claim) for claim, _, words in blocked],
    )


def _waiting_for(record: Record, proof: Proof) -> list[tuple[str, str, str, str]]:
    """(claim, ref, state, problem) of the claims that this proof is about."""
    return record.connection.execute(
        "SELECT id, ref, state, problem FROM claim WHERE allocation_id = ? AND node = ?"
        " AND slot IS ? AND state IN ('releasing', 'cleanup_blocked')",
        (proof.allocation_id, proof.node, proof.slot),
    ).fetchall()


def _proved(record: Record, proof: Proof) -> EventDraft:
    row = record.connection.execute(
        "SELECT ref FROM claim WHERE allocation_id = ? LIMIT 1", (proof.allocation_id,)
    ).fetchone()
    return EventDraft(
        type=EventType.PROVED,
        ref=parse_ref(row[0]) if row else None,
        after={
            "proof": proof.id,
            "allocation": proof.allocation_id,
            "node": proof.node,
            "slot": proof.slot,
            "passed": proof.passed,
        },
    )


def _unproved(proof: Proof) -> str:
    failed = [
        f"{check.name} {check.result.value}" + (f": {check.value}" if check.value else "")
        for check in proof.checks
        if check.result is not CheckResult.PASS
    ]
    return "; ".join(failed) or "nothing was checked"


def _new_allocations(record: Record, claims: Sequence[ClaimIntent]) -> list[tuple[str, str]]:
    """(ref, allocation id) that have no claim yet, each once."""
    known = "SELECT 1 FROM claim WHERE allocation_id = ? LIMIT 1"
    pairs = dict.fromkeys((str(claim.ref), claim.allocation_id) for claim in claims)
    return [pair for pair in pairs if not record.connection.execute(known, (pair[1],)).fetchone()]


def _place(claim: ClaimIntent) -> dict[str, str | int | None]:
    account = {"uid": claim.uid, "gid": claim.gid} if claim.uid else {}
    return {
        "claim": claim.id,
        "allocation": claim.allocation_id,
        "node": claim.node,
        "slot": claim.slot,
        "shape": claim.shape.value,
        **account,
    }
