"""The journal: the only writer of the state. Every method is one durable transaction.

It is used under the lock, but for what takes access away: that waits for nobody. It holds what one
run needs (its plan's prices and commit), and asks the clock once a transaction, so that all rows of
one moment bear one time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from reconciler.model.host.capacity import Claim
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.plan.approval import Consent
from reconciler.model.plan.drift import Acceptance
from reconciler.model.plan.lifecycle import RunState
from reconciler.model.plan.plan import Change, ClaimIntent, Order, Plan, Step
from reconciler.model.plan.work import WaveOutcome
from reconciler.model.problem import Problem, refuse
from reconciler.model.ref import Ref
from reconciler.model.settings import KeepSettings
from reconciler.model.state.event import Actor, EventType
from reconciler.model.state.rebuilt import JudgedDoubts, Rebuilt
from reconciler.model.state.reopening import Former, Reopening
from reconciler.model.state.volume import Attachment, Joining
from reconciler.model.state.world import Recorded, Suspension, World
from reconciler.store import rebuild as store_rebuild
from reconciler.store.backup.snapshots import take_snapshot
from reconciler.store.file.database import Database
from reconciler.store.retention.pruning import tidy
from reconciler.store.snapshot import read_world
from reconciler.store.tables import (
    acceptances,
    attachments,
    cleanups,
    consents,
    expiry,
    failures,
    installs,
    people,
    queue,
    removals,
    reopenings,
    resources,
    restarts,
    revocations,
    runs,
    suspensions,
    taints,
    volumes,
)
from reconciler.store.tables import claims as claim_rows
from reconciler.store.transaction import EventDraft, Record, recording

NOTHING_JOINS = Joining()


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

    def begin_wave(
        self,
        run: str,
        steps: Sequence[Step],
        claims: Sequence[ClaimIntent] = (),
        releasing: Sequence[Ref] = (),
        joining: Joining = NOTHING_JOINS,
    ) -> None:
        """The intent, before any host is touched: claims, what is given up, who is to have which

        volume, and open steps.

        Of a ref in `releasing` only those allocations are given up that its retiring steps name:
        a replaced allocation goes, the one that took its place stays.
        """
        with self._recording("begin_wave", run) as record:
            claim_rows.make_claims(record, claims, self._placed)
            gone = claim_rows.release_claims(record, releasing, _retired_allocations(steps))
            resources.release(record, gone)
            volumes.begin(record, joining.volumes)
            attachments.begin(record, joining.attachments)
            volumes.begin_wipes(record, steps)
            installs.begin(record, steps)
            resources.doubt(record, steps)
            people.begin(record, steps, self._changes)
            runs.begin_steps(record, steps, self._changes)
            expiry.quarantine(record, steps, self._changes)
            restarts.tell(record, steps, self._changes)
            removals.note(record, (step.ref for step in steps), self._changes)
            consents.begin(record, steps, self._changes)

    def finish_wave(
        self,
        run: str,
        outcome: WaveOutcome,
        recorded: Sequence[Recorded] = (),
        forgotten: Sequence[Ref] = (),
    ) -> None:
        """What came of a wave. Claims end here, and only those with a passed proof; attachments, by

        what hosts have shown. A ref in `forgotten` that still has a live claim stays on the books.
        """
        with self._recording("finish_wave", run) as record:
            runs.end_steps(record, outcome.steps, outcome.ticks)
            installs.settle(record, outcome.steps)
            self._observe(record, outcome.observations)
            failures.count(record, outcome.steps, outcome.observations)
            claim_rows.let_go(record, outcome.untouched)
            claim_rows.prove(record, outcome.proofs)
            volumes.settle(record, outcome.steps)
            attachments.settle(record, outcome.steps)
            attachments.end_proved(record, outcome.proofs)
            self._keep(record, recorded)
            resources.forget(record, forgotten)
            consents.use(record, [*(one.ref for one in recorded), *forgotten], self._changes)
            expiry.lapse(record, forgotten, self._changes)

    def record(
        self,
        run: str,
        recorded: Sequence[Recorded] = (),
        forgotten: Sequence[Ref] = (),
        renamed: Sequence[tuple[Ref, Recorded]] = (),
        moved: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Changes that need no host. `renamed` pairs the former ref with what it is now, `moved`

        a ref with its file, which is no change of it and no event.
        """
        with self._recording("record", run) as record:
            for former, one in renamed:
                resources.rename(record, former, one.ref)
            self._keep(record, [*recorded, *(one for _, one in renamed)])
            resources.forget(record, forgotten)
            resources.move(record, moved)
            done = [*(one.ref for one in recorded), *(one.ref for _, one in renamed), *forgotten]
            consents.use(record, done, self._changes)
            removals.note(record, done, self._changes)
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
            self._observe(record, observations)

    def refuse(self, plan: Plan) -> None:
        """What this plan would not do: who wanted it, before, after and why."""
        with self._recording("refuse") as record:
            runs.refuse(replace(record, commit=plan.revision.commit), plan)

    def unsee(self, nodes: Sequence[Ref]) -> None:
        """What these nodes said counts no more: nobody wants or holds them."""
        with self._recording("unsee") as record:
            resources.unsee(record, nodes)

    def wait(self, refs: Sequence[Ref]) -> None:
        """These found no capacity; who waited before keeps his place. A claim ends the wait."""
        with self._recording("wait") as record:
            queue.join(record, refs)

    def stop_waiting(self, refs: Sequence[Ref]) -> None:
        """These gave up, or nobody wants them any more."""
        with self._recording("stop_waiting") as record:
            queue.leave(record, refs)

    def rebuild(self, rebuilt: Rebuilt) -> None:
        """What hosts have told of allocations that this state knew nothing of."""
        with self._recording("rebuild") as record:
            store_rebuild.write(record, rebuilt)

    def judge_doubts(self, judged: JudgedDoubts, why: str = "") -> None:
        """What a look has come to, or somebody's word of `why` no look is to be waited for."""
        with self._recording("judge_doubts") as record:
            taints.begin(record, judged.kept)
            taints.end(record, judged.ended, why)

    def accept_drift(self, one: Acceptance) -> None:
        """What `one` says may stay as it shows, on the word of whoever acts."""
        with self._recording("accept_drift") as record:
            acceptances.accept(record, one)

    def retract_drift(self, one: Acceptance, reason: str) -> None:
        """That word counts no more."""
        with self._recording("retract_drift") as record:
            acceptances.retract(record, one, reason)

    def accept_history(self, former: str, commit: str, reason: str) -> None:
        """From now on `commit` is followed, which does not come of the former one."""
        with self._recording("accept_history") as record:
            sort, before, after = EventType.HISTORY_ACCEPTED, {"commit": former}, {"commit": commit}
            record.write(EventDraft(type=sort, ref=None, before=before, after=after, reason=reason))

    def suspend(self, one: Suspension) -> None:
        """From now on its scope is taken away, until its end or somebody's word."""
        with self._recording("suspend") as record:
            suspensions.begin(record, one)

    def approve(self, given: Sequence[Consent]) -> None:
        """Each lets go one change that was held, as it is, until its end."""
        with self._recording("approve") as record:
            consents.give(record, given)

    def suspensions(self) -> tuple[Suspension, ...]:
        """All that there are now."""
        return suspensions.read_suspensions(self._database.connection)

    def version(self) -> int:
        """Another number whenever somebody else has written to the state."""
        (number,) = self._database.connection.execute("PRAGMA data_version").fetchone()
        return int(number)

    def begin_revocation(self, steps: Sequence[Step], since: str) -> frozenset[str]:
        """From now on it is pending that these take access away, until their hosts show it.

        The nodes that a run works on just now which began at `since` or later.
        """
        with self._recording("begin_revocation") as record:
            resources.doubt(record, steps)
            revocations.begin(record, steps)
            return runs.nodes_at_work(record.connection, since)

    def finish_revocation(
        self,
        known: Sequence[Suspension],
        outcome: WaveOutcome,
        recorded: Sequence[tuple[Recorded, Recorded]],
    ) -> bool:
        """What came of steps that were made when `known` was all that was suspended.

        `recorded` pairs what was recorded then with what is now, which is written where nobody else
        has written meanwhile. False, and nothing is taken for done, where something else is
        suspended by now, or no longer is.
        """
        with self._recording("finish_revocation") as record:
            self._observe(record, outcome.observations)
            if suspensions.read_suspensions(record.connection) != tuple(known):
                return False
            shown = [one.step for one in outcome.steps if one.ok]
            others = resources.overtaken(record, {step.ref for step in shown})
            revocations.end(record, [step for step in shown if step.ref not in others])
            same = resources.still_in_doubt(record, [before for before, _ in recorded])
            self._keep(record, [after for before, after in recorded if before.ref in same])
            return True

    def resume(self, one: Suspension, why: str) -> None:
        """What was taken away is given back."""
        with self._recording("resume") as record:
            suspensions.end(record, one, why)

    def let_go(self, one: Recorded, reason: str) -> None:
        """An allocation stays on its host, and nobody of ours does anything about it."""
        with self._recording("let_go") as record:
            acceptances.let_go(record, one, reason)

    def retry(self, node: str, reason: str) -> None:
        """What a node failed at counts against it no more, on the word of whoever acts."""
        with self._recording("retry") as record:
            failures.clear(record, node, reason)

    def override(self, claims: Sequence[Claim], reason: str) -> None:
        """Free what could not be proved, on the word of whoever acts."""
        with self._recording("override") as record:
            cleanups.override(record, claims, reason)

    def fence(self, held: Sequence[Attachment], reason: str) -> None:
        """One allocation is cut off from one volume, on the word of whoever acts."""
        with self._recording("fence") as record:
            attachments.fence(record, held, reason)

    def reopen(self, one: Reopening, reason: str) -> None:
        """Files of one allocation are about to be another's, on the word of whoever acts."""
        with self._recording("reopen") as record:
            reopenings.reopen(record, one, reason)

    def reopened(self, one: Reopening, changed: int, left: str) -> None:
        """A host has looked at all of them: so many are, and these are not."""
        with self._recording("reopened") as record:
            reopenings.reopened(record, one, changed, left)

    def formers(self, volume: str) -> tuple[Former, ...]:
        """Every allocation that has or had this volume, oldest first."""
        return reopenings.formers(self._database, volume)

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

    def _recording(self, what: str, run: str = "") -> AbstractContextManager[Record]:
        return recording(
            self._database.transaction(what),
            actor=self._actor,
            at=format_moment(self._clock()),
            commit=self._commit,
            run=run,
        )

    def _placed(self, claim: ClaimIntent) -> str:
        """By which rule the plan has placed it."""
        change = self._changes.get(claim.ref)
        return change.placement.why if change and change.placement else ""

    def _observe(self, record: Record, observations: Sequence[Observation]) -> None:
        runs.observe(record, observations)
        cleanups.note_idle(record, observations)
        installs.see(record, observations)

    def _keep(self, record: Record, recorded: Sequence[Recorded]) -> None:
        failures.clear_changed(record, recorded)
        resources.keep(record, recorded)
        cleanups.note_first_idle(record, recorded)
        resources.begin_use(record, recorded, self._changes)
        expiry.count_lost(record, recorded)


def _retired_allocations(steps: Sequence[Step]) -> Mapping[Ref, set[str]]:
    named: dict[Ref, set[str]] = {}
    for step in steps:
        if step.order is Order.RETIRE and "id" in step.item:
            named.setdefault(step.ref, set()).add(str(step.item["id"]))
    return named
