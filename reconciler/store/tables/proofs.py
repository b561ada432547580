"""Proofs: a passed one frees its claim, any other blocks it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.model.canonical import canonical
from reconciler.model.codec import encode
from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import CheckResult, Proof
from reconciler.model.ref import parse_ref
from reconciler.model.state.event import EventType
from reconciler.store.transaction import EventDraft, Record


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
