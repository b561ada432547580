"""Recorded resources: what was applied, under which name, and what it is billed as."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from reconciler.model.canonical import canonical
from reconciler.model.host.capacity import Shape
from reconciler.model.plan.lifecycle import Phase, may_become
from reconciler.model.plan.plan import Step
from reconciler.model.plan.verb import SHOW_NOTHING
from reconciler.model.plan.work import WaveIntent
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.world import Recorded, RecordedProblem
from reconciler.store.file.database import Database
from reconciler.store.registry.contract import Table
from reconciler.store.rows import JsonText, RecordedRows, read_json
from reconciler.store.tables.accounts import keep_logins
from reconciler.store.tables.usage import end_use
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


def _insist_on_edge(one: Recorded, before: Mapping[str, Any] | None) -> None:
    """Raise `state_guard` for what no incarnation may become."""
    if before is None or not one.id or before["id"] != one.id:
        return
    if not may_become(Phase(before["phase"]), one.phase):
        raise refuse("state_guard", f"{one.ref} is {before['phase']} and cannot be {one.phase}")


def live(record: Record, refs: Iterable[Ref]) -> frozenset[str]:
    """Those of them that have claims which nothing has ended."""
    return frozenset(ref for (ref,) in record.connection.execute(_LIVE, (_names(refs),)))


def known(record: Record, refs: Sequence[Ref]) -> Sequence[Ref]:
    """Those of them that are recorded."""
    found = _summaries(record, refs)
    return [ref for ref in refs if str(ref) in found]


def remove(record: Record, refs: Sequence[Ref]) -> None:
    """Off the books, with all that is recorded of them."""
    before = _summaries(record, refs)
    record.write(
        *(EventDraft(type=EventType.FORGOTTEN, ref=ref, before=before[str(ref)]) for ref in refs)
    )
    record.connection.executemany(
        "DELETE FROM resource WHERE ref = ?", [(str(ref),) for ref in refs]
    )


def block(record: Record, refs: Iterable[str]) -> None:
    """They go, and were not proved to leave nothing."""
    record.connection.executemany(
        "UPDATE resource SET phase = 'releasing', problem = 'cleanup_blocked' WHERE ref = ?",
        [(ref,) for ref in sorted(refs)],
    )


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


def begin(record: Record, intent: WaveIntent) -> None:
    doubt(record, intent.steps)


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
            if not step.item.allocation_id and step.verb not in SHOW_NOTHING
        ],
    )
    record.connection.executemany(
        "UPDATE resource SET basis = '', facts = json_patch(facts, ?)"
        " WHERE ref = ? AND id = ? AND phase IN ('active', 'quarantined')",
        [
            (canonical(dict.fromkeys(step.expected)), str(step.ref), step.item.allocation_id)
            for step in steps
            if step.item.allocation_id
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
        one.problem.value,
        one.expires_at,
        one.undo_until,
        canonical(one.normal),
        canonical(dict(one.facts)),
    )


def read_recorded(database: Database, connection: sqlite3.Connection) -> RecordedRows:
    path, phases = database.path, {phase.value: phase for phase in Phase}
    problems = {problem.value: problem for problem in RecordedProblem}

    def read(ref: Ref, row: Any) -> Recorded:
        problem = problems.get(row[18], RecordedProblem.NONE)
        lets_go = problem is RecordedProblem.FORGOTTEN
        return Recorded(
            ref=ref,
            digest=row[3],
            basis=row[4],
            normal=JsonText(row[5], path, row[3]),
            file=row[6],
            commit=row[7],
            applied_at=row[8],
            generation=row[9],
            phase=phases[row[10]],
            protect=row[11] == 1,
            id=row[12],
            login=row[13],
            node=row[14],
            slots=tuple(read_json(row[15], path)) if row[15] != "[]" else (),
            shape=Shape(row[16]) if row[16] else None,
            facts=JsonText(row[17], path),
            problem=problem,
            expires_at="" if lets_go else row[19],
            lease_until=row[19] if lets_go else "",
            undo_until=row[20],
        )

    return RecordedRows(
        {Ref(row[0], row[1], row[2]): row for row in connection.execute(_RESOURCES)}, read
    )


_RESOURCES = (
    'SELECT kind, project, name, digest, basis, normal, file, "commit", applied_at, generation,'
    " phase, protect, id, login, node, slots, shape, facts, problem, expires_at, undo_until"
    " FROM resource"
)


TABLE = Table(begin=begin, keep=keep)
