"""The journal: the only writer of the state. Every method is one durable transaction.

It is used under the lock, but for what takes access away: that waits for nobody. It holds what one
run needs (its plan's prices and commit), and asks the clock once a transaction, so that all rows of
one moment bear one time. It names no feature: what each of them writes stands in its table, and
when, in `registry`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeVar

from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import RunState
from reconciler.model.plan.plan import Change, Plan
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.problem import Problem, refuse
from reconciler.model.ref import Ref
from reconciler.model.settings import KeepSettings
from reconciler.model.state.event import Actor, EventType
from reconciler.model.state.world import Recorded, World
from reconciler.store.backup.snapshots import take_snapshot
from reconciler.store.file.database import Database
from reconciler.store.registry import lifecycle, registry
from reconciler.store.retention.pruning import tidy
from reconciler.store.snapshot import read_world
from reconciler.store.tables import resources, runs
from reconciler.store.transaction import EventDraft, Record

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Journal:
    def __init__(
        self,
        database: Database,
        actor: Actor,
        clock: Callable[[], datetime],
        program: str = "",
    ) -> None:
        """`program` is the version of it that writes."""
        self._database = database
        self._program = program
        self._actor = f"{actor.user} ({actor.name})" if actor.user else actor.name
        self._clock = clock
        self._commit = ""
        self._changes: Mapping[Ref, Change] = {}

    def world(self) -> World:
        """Everything as it is now, in one read transaction."""
        return read_world(self._database)

    def snapshot(self, keep: int) -> None:
        """Keep the state as it is now beside it, and no more than `keep` such copies.

        Raises ProblemError `snapshot_failed`.
        """
        take_snapshot(self._database, self._clock(), keep)

    def enter(
        self,
        what: str,
        table: Callable[Concatenate[Record, Given], Answer],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Answer:
        """What a `table` writes of its own, in one transaction that is named `what`."""
        with self._recording(what) as record:
            return table(record, *args, **kwargs)

    def read(
        self,
        table: Callable[Concatenate[sqlite3.Connection, Given], Answer],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Answer:
        """What a `table` has now."""
        with self._database.snapshot() as connection:
            return table(connection, *args, **kwargs)

    def begin_run(self, plan: Plan, commit: str = "") -> str:
        """The id of a new run of `plan`, made from `commit` (or from the plan's own)."""
        self._commit = commit or plan.revision.commit
        self._changes = {change.ref: change for change in plan.changes}
        with self._recording("begin_run") as record:
            return runs.begin(record, plan, self._program)

    def use_plan(self, fingerprint: str, run: str) -> None:
        """A saved plan is good for one apply. Raises ProblemError `plan_used` the second time."""
        with self._recording("use_plan", run) as record:
            used = record.connection.execute(
                "SELECT used_at FROM plan WHERE fingerprint = ?", (fingerprint,)
            ).fetchone()
            if used:
                raise refuse(
                    "plan_used",
                    f"this plan was applied on {used[0]}",
                    "make a new one: gpuaas plan --save FILE",
                )
            record.write(EventDraft(type=EventType.PLAN_USED, after={"fingerprint": fingerprint}))
            record.connection.execute(
                "INSERT INTO plan (fingerprint, run, used_at) VALUES (?, ?, ?)",
                (fingerprint, run, record.at),
            )

    def begin_wave(self, run: str, intent: WaveIntent) -> None:
        """The intent, before any host is touched: claims, what is given up, and open steps."""
        with self._recording("begin_wave", run) as record:
            for table in (*registry.HOLD, *registry.BEGIN):
                table(record, intent)

    def finish_wave(
        self,
        run: str,
        outcome: WaveOutcome,
        recorded: Sequence[Recorded] = (),
        forgotten: Sequence[Ref] = (),
    ) -> None:
        """What came of a wave. Claims end here, and only those with a passed proof. A ref in
        `forgotten` that still has a live claim stays on the books.
        """
        with self._recording("finish_wave", run) as record:
            registry.settle(record, outcome)
            registry.keep(record, recorded)
            lifecycle.forget(record, forgotten)
            for done in registry.DONE:
                done(record, [*(one.ref for one in recorded), *forgotten])
            for end in registry.END:
                end(record, forgotten)

    def record(
        self,
        run: str,
        recorded: Sequence[Recorded] = (),
        forgotten: Sequence[Ref] = (),
        renamed: Sequence[tuple[Ref, Recorded]] = (),
        moved: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Changes that need no host. `renamed` pairs the former ref with what it is now, `moved` a
        ref with its file, which is no change of it and no event.
        """
        with self._recording("record", run) as record:
            for former, one in renamed:
                lifecycle.rename(record, former, one.ref)
            registry.keep(record, [*recorded, *(one for _, one in renamed)])
            lifecycle.forget(record, forgotten)
            resources.move(record, moved)
            done = [*(one.ref for one in recorded), *(one.ref for _, one in renamed), *forgotten]
            for table in (*registry.DONE, *registry.NOTE):
                table(record, done)
            runs.note_progress(record)

    def knows_run(self, run: str) -> bool:
        """Whether this is the state in which it was begun, or a later copy of that."""
        query = "SELECT 1 FROM run WHERE id = ?"
        return self._database.connection.execute(query, (run,)).fetchone() is not None

    def end_run(self, run: str, state: RunState, problems: Sequence[Problem] = ()) -> None:
        with self._recording("end_run", run) as record:
            runs.end(record, state, problems, self._program)

    def observe(self, observations: Sequence[Observation]) -> None:
        """What nodes said outside of any wave."""
        with self._recording("observe") as record:
            registry.observe(record, observations)

    def refuse(self, plan: Plan) -> None:
        """What this plan would not do: who wanted it, before, after and why."""
        with self._recording("refuse") as record:
            runs.refuse(replace(record, commit=plan.revision.commit), plan)

    def unsee(self, nodes: Sequence[Ref]) -> None:
        """What these nodes said counts no more: nobody wants or holds them."""
        with self._recording("unsee") as record:
            registry.unsee(record, nodes)

    def version(self) -> int:
        """Another number whenever somebody else has written to the state."""
        (number,) = self._database.connection.execute("PRAGMA data_version").fetchone()
        return int(number)

    def has_unended(self) -> bool:
        """Whether a run or a step has no end, which under the lock nobody will write any more."""
        return runs.has_unended(self._database.connection)

    def close_open_steps(self) -> None:
        """After a crash: what was under way is unknown until its host is observed."""
        with self._recording("close_open_steps") as record:
            runs.close_open(record)

    def take_over_lock(self, holder: str) -> None:
        """The lock was left behind by a process that died."""
        with self._recording("take_over_lock") as record:
            record.write(EventDraft(type=EventType.LOCK_TAKEN_OVER, reason=holder))

    def tidy(self, keep: KeepSettings) -> None:
        """More than that is not kept, but for what somebody still has to decide by."""
        tidy(self._database, keep)

    @contextmanager
    def _recording(self, what: str, run: str = "") -> Iterator[Record]:
        """All rows of one durable transaction, or none of them."""
        at = format_moment(self._clock())
        with self._database.transaction(what) as connection:
            yield Record(
                connection=connection,
                actor=self._actor,
                at=at,
                commit=self._commit,
                run=run,
                changes=self._changes,
            )
