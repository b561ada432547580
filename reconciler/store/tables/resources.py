"""Recorded resources, written: what was applied, under which name, and what it is billed as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any

from reconciler.model.canonical import canonical
from reconciler.model.plan.lifecycle import Phase, may_become
from reconciler.model.plan.plan import Change, Step
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.world import Recorded
from reconciler.store.tables import acceptances, attachments, installs, people, revocations, volumes
from reconciler.store.tables.accounts import end_gids, keep_logins, rename_gid
from reconciler.store.tables.expiry import end_use
from reconciler.store.transaction import EventDraft, Record

COLUMNS = (
    'ref, kind, project, name, digest, basis, file, "commit", applied_at, generation, phase,'
    " protect, id, login, node, slots, shape, problem, expires_at, undo_until, normal, facts"
)
_NAMES = COLUMNS.split(", ")
_UPSERT = (
    f"INSERT INTO resource ({COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))})"
    " ON CONFLICT (ref) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _NAMES[1:])
)
_LIVE = (
    "SELECT DISTINCT ref FROM (SELECT value FROM json_each(?))"
    " CROSS JOIN claim ON ref = value AND state <> 'freed'"
)
_SUMMARY = tuple(name for name in _NAMES[4:-2] if name not in ('"commit"', "applied_at", "shape"))
_summary = itemgetter(*(_NAMES.index(name) for name in _SUMMARY))


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    """Write resources as applied. The generation counts the digests that a ref has had."""
    known = _summaries(record, [one.ref for one in recorded])
    rows, entries = [], []
    for one in recorded:
        before = known.get(str(one.ref))
        _insist_on_edge(one, before)
        row = _row(one, _generation(one, before), record)
        after = dict(zip(_SUMMARY, _summary(row), strict=True))
        if after != before:
            entries.append(
                EventDraft(type=EventType.RECORDED, ref=one.ref, before=before, after=after)
            )
        rows.append(row)
    record.write(*entries)
    record.connection.executemany(_UPSERT, sorted(rows))
    keep_logins(record, {(one.login, one.id, str(one.ref)) for one in recorded})
    people.keep(record, recorded)
    volumes.take_back(record, [one.ref for one in recorded if one.ref.kind == "storage"])


def _insist_on_edge(one: Recorded, before: Mapping[str, Any] | None) -> None:
    """Raise `state_guard` for what no incarnation may become."""
    if before is None or not one.id or before["id"] != one.id:
        return
    if not may_become(Phase(before["phase"]), one.phase):
        raise refuse("state_guard", f"{one.ref} is {before['phase']} and cannot be {one.phase}")


def forget(record: Record, refs: Sequence[Ref]) -> None:
    """Take resources off the books; one whose slots are not proved clean stays, as releasing, and

    a storage that is attached, or being wiped. Of any other its data is kept.
    """
    known = _summaries(record, refs)
    live = {ref for (ref,) in record.connection.execute(_LIVE, (_names(refs),))}
    stay = live | volumes.in_hand(record.connection, {str(ref) for ref in refs})
    gone = [ref for ref in refs if str(ref) in known and str(ref) not in stay]
    volumes.keep(record, gone)
    record.write(
        *(EventDraft(type=EventType.FORGOTTEN, ref=ref, before=known[str(ref)]) for ref in gone)
    )
    record.connection.executemany(
        "DELETE FROM resource WHERE ref = ?", [(str(ref),) for ref in gone]
    )
    unsee(record, gone)
    for ref in gone:
        if ref.kind == "user":
            people.part(record, ref.name)
    revocations.forget(record, gone)
    acceptances.forget(record, gone)
    end_gids(record, [ref for ref in gone if ref.name not in volumes.projects(record.connection)])
    record.connection.executemany(
        "UPDATE resource SET phase = 'releasing', problem = 'cleanup_blocked' WHERE ref = ?",
        [(ref,) for ref in sorted(live)],
    )


def unsee(record: Record, gone: Iterable[Ref]) -> None:
    """Another host may come by the name of a node; what this one said is no evidence of it."""
    nodes = [ref for ref in gone if ref.kind == "node"]
    record.connection.executemany(
        "DELETE FROM observation WHERE node = ?", [(ref.name,) for ref in nodes]
    )
    installs.forget(record, nodes)


def rename(record: Record, former: Ref, ref: Ref) -> None:
    """One resource under another name; its claims go with it, its id and login stay."""
    record.write(
        EventDraft(
            type=EventType.RENAMED,
            ref=ref,
            before={"ref": str(former)},
            after={"ref": str(ref)},
        )
    )
    record.connection.execute(
        "UPDATE resource SET ref = ?, kind = ?, project = ?, name = ? WHERE ref = ?",
        (str(ref), *ref, str(former)),
    )
    record.connection.execute(
        "UPDATE claim SET ref = ? WHERE ref = ? AND state <> 'freed'", (str(ref), str(former))
    )
    if former.kind == "user":
        people.part(record, former.name)
    unsee(record, [former])
    revocations.rename(record, former, ref)
    acceptances.rename(record, former, ref)
    volumes.rename(record, former, ref)
    attachments.rename(record, former, ref)
    rename_gid(record, former, ref)


def doubt(record: Record, steps: Sequence[Step]) -> None:
    """From now on nobody knows what the host shows of these steps, until they are recorded anew.

    A crash, or a step that fails, leaves it so: the next plan then does them again, even where git
    has gone back meanwhile to what was recorded before. A host that is made ready shows it before
    all of it is in force, so until it is recorded anew it counts as never prepared.
    """
    record.connection.executemany(
        "UPDATE resource SET facts = '{}' WHERE ref = ? AND kind = 'node'",
        [
            (str(step.ref),)
            for step in steps
            if not step.item.get("id") and step.verb != volumes.FORGET
        ],
    )
    record.connection.executemany(
        "UPDATE resource SET basis = '', facts = json_patch(facts, ?)"
        " WHERE ref = ? AND id = ? AND phase IN ('active', 'quarantined')",
        [
            (canonical(dict.fromkeys(step.expected)), str(step.ref), step.item["id"])
            for step in steps
            if step.item.get("id")
        ],
    )


def still_in_doubt(record: Record, before: Sequence[Recorded]) -> frozenset[Ref]:
    """Those that are as they were, and that nobody has recorded or begun to work on since."""
    query = (
        "SELECT 1 FROM resource WHERE ref = ? AND id = ? AND node = ? AND digest = ?"
        " AND phase = ? AND basis = ''"
        " AND NOT EXISTS (SELECT 1 FROM step WHERE step.ref = resource.ref AND state = 'open')"
    )
    return frozenset(
        one.ref
        for one in before
        if record.connection.execute(
            query, (str(one.ref), one.id, one.node, one.digest, one.phase.value)
        ).fetchone()
    )


def overtaken(record: Record, refs: Iterable[Ref]) -> frozenset[Ref]:
    """Those of which a step has begun, or ended and been recorded, since they were in doubt."""
    query = (
        "SELECT 1 FROM resource WHERE ref = ? AND (basis <> ''"
        " OR EXISTS (SELECT 1 FROM step WHERE step.ref = resource.ref"
        " AND step.node = resource.node AND state = 'open'))"
    )
    return frozenset(r for r in refs if record.connection.execute(query, (str(r),)).fetchone())


def release(record: Record, allocations: Iterable[str]) -> None:
    """Billing ends when the release begins, however long the cleanup takes."""
    ids = sorted(allocations)
    record.connection.execute(
        "UPDATE resource SET phase = 'releasing' WHERE kind = 'allocation'"
        " AND id IN (SELECT value FROM json_each(?))",
        (canonical(ids),),
    )
    end_use(record, ids)


def begin_use(record: Record, recorded: Sequence[Recorded], changes: Mapping[Ref, Change]) -> None:
    """Billing begins when an allocation is active, and anew when it was quarantined meanwhile; at

    the price of that moment.
    """
    for one in recorded:
        if not one.id or one.shape is None or one.phase is not Phase.ACTIVE:
            continue
        change = changes.get(one.ref)
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


def _generation(recorded: Recorded, before: Mapping[str, Any] | None) -> int:
    if before is None:
        return recorded.generation
    generation: int = before["generation"]
    return generation + int(before["digest"] != recorded.digest)


def _summaries(record: Record, refs: Iterable[Ref]) -> Mapping[str, Mapping[str, object]]:
    """What events say of a resource, by ref; one that is not recorded is left out."""
    rows = record.connection.execute(
        f"SELECT ref, {', '.join(_SUMMARY)} FROM (SELECT value FROM json_each(?))"
        " CROSS JOIN resource ON ref = value",
        (_names(refs),),
    )
    return {ref: dict(zip(_SUMMARY, row, strict=True)) for ref, *row in rows}


def move(record: Record, moved: Mapping[str, str]) -> None:
    """In which file each document is now that says the same as before."""
    record.connection.executemany(
        "UPDATE resource SET file = ? WHERE ref = ?", [(file, ref) for ref, file in moved.items()]
    )


def _names(refs: Iterable[Ref]) -> str:
    return canonical([str(ref) for ref in refs])


def _row(one: Recorded, generation: int, record: Record) -> tuple[object, ...]:
    return (
        str(one.ref),
        *one.ref,
        one.digest,
        one.basis,
        one.file,
        one.commit,
        one.applied_at or record.at,
        generation,
        one.phase.value,
        int(one.protect),
        one.id,
        one.login,
        one.node,
        canonical(list(one.slots)),
        one.shape.value if one.shape else None,
        one.problem,
        one.expires_at,
        one.undo_until,
        canonical(one.normal),
        canonical(dict(one.facts)),
    )
