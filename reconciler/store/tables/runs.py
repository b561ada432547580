"""Runs: their steps, and what nodes reported meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reconciler.model.canonical import canonical, digest
from reconciler.model.codec import encode
from reconciler.model.plan.lifecycle import RunState, StepState
from reconciler.model.plan.plan import Plan
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.problem import Problem
from reconciler.model.ref import parse_ref
from reconciler.model.state.event import EventType
from reconciler.model.state.world import OpenStep
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.transaction import EventDraft, Record

LOG_LIMIT = 4000
NO_END = "the run ended before this step's end was written"


_PROGRAM = (
    "SELECT json_extract(after, '$.program') AS program FROM event WHERE sequence IN ("
    "(SELECT max(sequence) FROM event WHERE type = 'run_started'),"
    " (SELECT max(sequence) FROM event WHERE type = 'run_ended'))"
    " AND program <> '' ORDER BY sequence DESC LIMIT 1"
)


def begin(record: Record, plan: Plan, program: str) -> str:
    """The id of a new run by this version of the program; ids sort in the order of runs."""
    number = record.connection.execute("SELECT coalesce(max(number), 0) + 1 FROM run").fetchone()[0]
    run = f"run-{number:06d}"
    record.connection.execute(
        "INSERT INTO run (number, id, actor, fingerprint, desired_digest, serial, "
        '"commit", state, started, progress) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
        (
            number,
            run,
            record.actor,
            plan.fingerprint,
            plan.desired_digest,
            plan.serial,
            record.commit,
            RunState.RUNNING.value,
            record.at,
            record.at,
        ),
    )
    replace(record, run=run).write(
        EventDraft(
            type=EventType.RUN_STARTED,
            after={
                "run": run,
                "fingerprint": plan.fingerprint,
                "serial": plan.serial,
                "program": program,
            },
        ),
        *(
            EventDraft(type=EventType.DETACH_FORCED, ref=parse_ref(text), reason=plan.forced.why)
            for text in plan.forced.refs
        ),
    )
    return run


def read_open_steps(connection: sqlite3.Connection) -> tuple[OpenStep, ...]:
    return tuple(map(_open_step, connection.execute(_OPEN_STEPS)))


def read_program(connection: sqlite3.Connection) -> str:
    """The version of the program that applied last, as far as events say; empty if none did."""
    row = connection.execute(_PROGRAM).fetchone()
    return str(row[0]) if row else ""


def begin_steps(record: Record, intent: WaveIntent) -> None:
    """Write the intent of a wave: these steps are open until their end is written.

    Each is told with the action of the change that it is part of.
    """
    steps, changes = intent.steps, record.changes
    wave = record.connection.execute(
        "SELECT coalesce(max(wave), 0) + 1 FROM step WHERE run = ?", (record.run,)
    ).fetchone()[0]
    record.write(
        *(
            EventDraft(
                type=EventType.STEP_STARTED,
                ref=step.ref,
                after={
                    "step": step.id,
                    "verb": step.verb,
                    "node": step.node,
                    **({"action": changes[step.ref].action.value} if step.ref in changes else {}),
                    **({"revokes": list(step.revokes)} if step.revokes else {}),
                },
            )
            for step in steps
        )
    )
    record.connection.executemany(
        'INSERT INTO step (run, id, wave, ref, verb, node, "order", work, state, started)'
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                record.run,
                step.id,
                wave,
                str(step.ref),
                step.verb,
                step.node,
                step.order.value,
                digest({"item": encode(step.item), "expected": encode(step.expected)}),
                StepState.OPEN.value,
                record.at,
            )
            for step in steps
        ],
    )
    note_progress(record)


def end_steps(record: Record, wave: WaveOutcome) -> None:
    """Write the ends of steps, and when the host came to which phase, as far as that is known."""
    record.write(
        *(
            EventDraft(
                type=EventType.STEP_ENDED,
                ref=outcome.step.ref,
                after={
                    "step": outcome.step.id,
                    "state": _state(outcome).value,
                    "changed": outcome.changed,
                    **({"ticks": told} if (told := wave.ticks.get(outcome.step.node)) else {}),
                },
                reason=outcome.problem.code if outcome.problem else "",
            )
            for outcome in wave.steps
        )
    )
    record.connection.executemany(
        "UPDATE step SET state = ?, finished = ?, changed = ?, problem = ?, message = ?, log = ?"
        " WHERE run = ? AND id = ? AND state IN ('open', 'unknown')",
        [
            (
                _state(outcome).value,
                record.at,
                int(outcome.changed),
                outcome.problem.code if outcome.problem else "",
                outcome.problem.message if outcome.problem else "",
                outcome.log[-LOG_LIMIT:],
                record.run,
                outcome.step.id,
            )
            for outcome in wave.steps
        ],
    )
    note_progress(record)


def note_progress(record: Record) -> None:
    record.connection.execute("UPDATE run SET progress = ? WHERE id = ?", (record.at, record.run))


def end(record: Record, state: RunState, problems: Sequence[Problem], program: str) -> None:
    words = "; ".join(f"{problem.code}: {problem.message}" for problem in problems)
    record.connection.execute(
        "UPDATE run SET state = ?, ended = ?, problem = ? WHERE id = ?",
        (state.value, record.at, words, record.run),
    )
    record.write(
        EventDraft(
            type=EventType.RUN_ENDED,
            after={"run": record.run, "state": state.value, "program": program},
            reason="; ".join(sorted({problem.code for problem in problems})),
        )
    )


def has_unended(connection: sqlite3.Connection) -> bool:
    query = (
        "SELECT EXISTS (SELECT 1 FROM run WHERE state = 'running')"
        " OR EXISTS (SELECT 1 FROM step WHERE state = 'open')"
    )
    return bool(connection.execute(query).fetchone()[0])


def nodes_at_work(connection: sqlite3.Connection, since: str) -> frozenset[str]:
    """Nodes of a run that began at `since` or later and has not ended."""
    rows = connection.execute(
        "SELECT DISTINCT node FROM step JOIN run ON run.id = step.run"
        " WHERE step.state = 'open' AND run.state = 'running' AND run.started >= ?",
        (since,),
    )
    return frozenset(node for (node,) in rows)


def close_open(record: Record) -> None:
    """Runs and steps whose end was never written: interrupted, their outcome unknown."""
    steps = record.connection.execute(
        "SELECT run, id, ref FROM step WHERE state = 'open' ORDER BY run, id"
    ).fetchall()
    runs = record.connection.execute(
        "SELECT id FROM run WHERE state = 'running' ORDER BY id"
    ).fetchall()
    record.write(
        *(
            EventDraft(
                type=EventType.STEP_ENDED,
                ref=parse_ref(ref),
                after={"run": run, "step": id_, "state": StepState.UNKNOWN.value},
                reason=NO_END,
            )
            for run, id_, ref in steps
        ),
        *(
            EventDraft(
                type=EventType.RUN_ENDED,
                after={"run": run, "state": RunState.INTERRUPTED.value},
                reason="its end was never written",
            )
            for (run,) in runs
        ),
    )
    record.connection.execute(
        "UPDATE step SET state = 'unknown', finished = ?, message = ? WHERE state = 'open'",
        (record.at, NO_END),
    )
    record.connection.execute(
        "UPDATE run SET state = 'interrupted', ended = ? WHERE state = 'running'", (record.at,)
    )


def refuse(record: Record, plan: Plan) -> None:
    """Write what a plan refuses; it is told once, until the refusal is another one.

    Requests that wait for capacity or consent are not refused.
    """
    lines = {change.ref: change for change in plan.changes}
    problems = [p for p in plan.problems if p.is_error and p.ref]
    problems += [c.problem for c in plan.changes if c.problem and c.problem.code not in WAITS]
    for problem in {problem.ref: problem for problem in reversed(problems)}.values():
        ref = parse_ref(problem.ref)
        change = lines.get(ref) if ref else None
        after = {
            "code": problem.code,
            "file": change.file if change else problem.source.file if problem.source else "",
            "author": change.origin.author if change else "",
            "commit": change.origin.commit if change else "",
        }
        if ref is not None and _last_word(record, problem.ref) != canonical(after):
            before = _known(record, problem.ref)
            entry = EventDraft(type=EventType.REFUSED, ref=ref, before=before, after=after)
            record.write(replace(entry, reason=problem.message))


WAITS = frozenset({"sku_unavailable", "held_for_approval", "held_by_policy", "loop_suspended"})


def _last_word(record: Record, ref: str) -> str:
    """What was said of a ref when it was last refused, if it was not recorded since."""
    row = record.connection.execute(
        "SELECT type, after FROM event WHERE ref = ? AND type IN ('refused', 'recorded',"
        " 'forgotten') ORDER BY sequence DESC LIMIT 1",
        (ref,),
    ).fetchone()
    return canonical(json.loads(row[1])) if row and row[0] == EventType.REFUSED else ""


def _known(record: Record, ref: str) -> dict[str, str] | None:
    row = record.connection.execute("SELECT digest FROM resource WHERE ref = ?", (ref,)).fetchone()
    return {"digest": row[0]} if row else None


def _state(outcome: StepOutcome) -> StepState:
    if outcome.unknown:
        return StepState.UNKNOWN
    return StepState.DONE if outcome.ok else StepState.FAILED


def _open_step(row: Any) -> OpenStep:
    return OpenStep(
        run=row[0],
        step=row[1],
        ref=stored_ref(row[2]),
        verb=row[3],
        node=row[4],
        state=StepState(row[5]),
        started=row[6],
    )


_OPEN_STEPS = (
    "SELECT run, id, ref, verb, node, state, started FROM step"
    # An unknown step stays open until its host has said, after it ended, what is true.
    " WHERE state = 'open' OR state = 'unknown' AND NOT EXISTS (SELECT 1 FROM observation o"
    " WHERE o.node = step.node AND o.facts IS NOT NULL AND o.at >= step.finished)"
    " ORDER BY run, wave, id"
)


TABLE = Table(
    begin=begin_steps,
    settle=end_steps,
    read={"open_steps": read_open_steps, "written_by": read_program},
)
