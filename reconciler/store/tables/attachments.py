"""Attachments: made before any host is touched, ended by evidence, a proof or a fence.

The guards in SQL hold these rules once more; what is refused there is a defect here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.model.host.evidence import Proof
from reconciler.model.plan.items.storage import AttachItem, DetachItem
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.event import EventType
from reconciler.model.state.rebuilt import Rebuilt
from reconciler.model.state.volume import Attachment
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.transaction import EventDraft, Record

CUT_OFF = "cut off before the state was lost: what stands beside the data does not have it"

_NAMES = ("allocation_id", "volume", "ref", "storage", "node", "mode", "access", "mount_path")
_READ = (
    f"SELECT {', '.join(_NAMES)}, since FROM attachment WHERE ended = ''"
    " ORDER BY storage, allocation_id, event"
)
_LIVE = (
    "SELECT event, ref, storage, volume, mode FROM attachment"
    " WHERE ended = '' AND allocation_id = ?"
)


def read_attachments(connection: sqlite3.Connection) -> tuple[Attachment, ...]:
    """All attachments that have not ended."""
    return tuple(_attachment(row) for row in connection.execute(_READ))


def hold(record: Record, intent: WaveIntent) -> None:
    attach(record, intent.joining.attachments)


def attach(record: Record, attachments: Iterable[Attachment]) -> None:
    """Write what a host is going to be asked to attach, or is asked anew.

    A writer counts from now on; one that becomes a reader, once its host has shown it.
    """
    for one in attachments:
        live = _at(record, one.allocation_id, one.volume, one.mount_path)
        before = {"mode": live[1], "access": live[2]} if live else None
        mode = "rw" if "rw" in (one.mode, live[1] if live else "") else one.mode
        if before == {"mode": mode, "access": one.access}:
            continue
        after = {
            "storage": str(one.storage),
            "volume": one.volume,
            "node": one.node,
            "mode": mode,
            "access": one.access,
            "mountPath": one.mount_path,
        }
        (event,) = record.write(
            EventDraft(type=EventType.ATTACHING, ref=one.ref, before=before, after=after)
        )
        if live:
            record.connection.execute(
                "UPDATE attachment SET mode = ?, access = ? WHERE event = ?",
                (mode, one.access, live[0]),
            )
        else:
            _insert(record, one, event)


def _insert(record: Record, one: Attachment, event: int) -> None:
    record.connection.execute(
        f"INSERT INTO attachment (event, since, {', '.join(_NAMES)})"
        f" VALUES ({', '.join('?' * (len(_NAMES) + 2))})",
        (
            event,
            record.at,
            one.allocation_id,
            one.volume,
            str(one.ref),
            str(one.storage),
            one.node,
            one.mode,
            one.access,
            one.mount_path,
        ),
    )


def conclude(record: Record, outcome: WaveOutcome) -> None:
    _settle(record, outcome.steps)
    end_proved(record, outcome.proofs)


def _settle(record: Record, outcomes: Sequence[StepOutcome]) -> None:
    """End what hosts have shown to be detached; what is attached anew in the same place stays."""
    again = {
        place
        for outcome in outcomes
        if isinstance(outcome.step.item, AttachItem)
        for place in _places(outcome)
    }
    for outcome in outcomes:
        if not outcome.ok:
            continue
        if isinstance(outcome.step.item, AttachItem):
            _show_modes(record, outcome.step.ref, outcome.step.item)
        elif isinstance(outcome.step.item, DetachItem):
            for place in _places(outcome):
                live = _at(record, *place)
                if live and place not in again:
                    cause = {"run": record.run, "step": outcome.step.id}
                    _end(record, [live[0]], cause, {"step": outcome.step.id})


def end_proved(record: Record, proofs: Iterable[Proof]) -> None:
    """An allocation that is proved clean, on any of its places, has no storage either."""
    for proof in proofs:
        if proof.passed and not _has_claims(record, proof.allocation_id):
            query = f"{_LIVE} AND node = ?"
            rows = record.connection.execute(query, (proof.allocation_id, proof.node)).fetchall()
            cause = {"proof": proof.id}
            _end(record, [row[0] for row in rows], cause, cause)


def rebuild(record: Record, rebuilt: Rebuilt) -> None:
    """Who is not among those who have it, as it says itself, was cut off, and is so for good.

    Whoever is shown now for the first time gets the name that their host says.
    """
    for one in rebuilt.severed:
        attach(record, [one])
        fence(record, [one], CUT_OFF)
    attach(record, rebuilt.attachments)
    record.connection.executemany(
        "UPDATE attachment SET ref = ? WHERE allocation_id = ? AND ended = ''",
        sorted({(str(claim.ref), claim.allocation_id) for claim in rebuilt.claims}),
    )


def fence(record: Record, held: Sequence[Attachment], reason: str) -> None:
    """Cut this allocation off from this volume for good, by the decision of whoever acts."""
    one = held[0]
    query = "SELECT storage FROM volume WHERE id = ?"
    (storage,) = record.connection.execute(query, (one.volume,)).fetchone()
    (event,) = record.write(
        EventDraft(
            type=EventType.FENCED,
            ref=parse_ref(storage),
            before={"node": one.node, "mode": one.mode},
            after={"volume": one.volume, "allocation": one.allocation_id, "ref": str(one.ref)},
            reason=reason,
        )
    )
    record.connection.execute(
        "INSERT INTO fence (event, volume, allocation_id, actor, reason, at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (event, one.volume, one.allocation_id, record.actor, reason, record.at),
    )
    rows = record.connection.execute(f"{_LIVE} AND volume = ?", (one.allocation_id, one.volume))
    _end(record, [row[0] for row in rows.fetchall()], {"fence": event}, {"fence": event})


def rename(record: Record, former: Ref, ref: Ref) -> None:
    """One that has ended keeps the name that it had.

    What a storage was called stays: by that name its host has it, until it was seen to let go.
    """
    record.connection.execute(
        "UPDATE attachment SET ref = ? WHERE ref = ? AND ended = ''", (str(ref), str(former))
    )


def _places(outcome: StepOutcome) -> list[tuple[str, str, str]]:
    """(allocation id, volume, mount path) of each volume that a step was about."""
    item = outcome.step.item
    if not isinstance(item, (AttachItem, DetachItem)):
        return []
    return [(item.id, told.id, told.mount_path) for told in item.volumes]


def _at(record: Record, allocation: str, volume: str, path: str) -> tuple[int, str, str] | None:
    """(event, mode, access) of what is attached there."""
    found: tuple[int, str, str] | None = record.connection.execute(
        "SELECT event, mode, access FROM attachment"
        " WHERE allocation_id = ? AND volume = ? AND mount_path = ? AND ended = ''",
        (allocation, volume, path),
    ).fetchone()
    return found


def _show_modes(record: Record, ref: Ref, item: AttachItem) -> None:
    """Who was a writer so long is one no more."""
    for told in item.volumes:
        live = _at(record, item.id, told.id, told.mount_path)
        if live and live[1] != told.mode:
            record.write(
                EventDraft(
                    type=EventType.ATTACHING,
                    ref=ref,
                    before={"mode": live[1]},
                    after={"volume": told.id, "mode": told.mode},
                )
            )
            record.connection.execute(
                "UPDATE attachment SET mode = ? WHERE event = ?", (told.mode, live[0])
            )


def _end(
    record: Record, events: Sequence[int], cause: Mapping[str, Any], told: Mapping[str, Any]
) -> None:
    columns = "".join(f", {name} = ?" for name in cause)
    for event in events:
        ref, storage, volume, mode = record.connection.execute(
            "SELECT ref, storage, volume, mode FROM attachment WHERE event = ?", (event,)
        ).fetchone()
        record.write(
            EventDraft(
                type=EventType.DETACHED,
                ref=parse_ref(ref),
                before={"mode": mode},
                after={"storage": storage, "volume": volume, **told},
            )
        )
        record.connection.execute(
            f"UPDATE attachment SET ended = ?{columns} WHERE event = ?",
            (record.at, *cause.values(), event),
        )


def _has_claims(record: Record, allocation: str) -> bool:
    query = "SELECT 1 FROM claim WHERE allocation_id = ? AND state <> 'freed' LIMIT 1"
    return record.connection.execute(query, (allocation,)).fetchone() is not None


def _attachment(row: Any) -> Attachment:
    values = dict(zip((*_NAMES, "since"), row, strict=True))
    for name in ("ref", "storage"):
        values[name] = stored_ref(values[name])
    return Attachment(**values)


TABLE = Table(hold=hold, conclude=conclude, rename=rename, read={"attachments": read_attachments})
