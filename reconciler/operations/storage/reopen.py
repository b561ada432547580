"""`storage reopen`: files of an ended allocation in a storage are given to another one.

Nobody else's files are touched, and nothing is without this word. The host works for a while at a
time, and the lock is given back in between: whoever has to shut somebody out waits for no more than
one such call. What was begun is gone on with by asking again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from reconciler.model.plan.work import HostProgress
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.state.reopening import Reopening, ReopenRequest
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.journal import writing
from reconciler.operations.person import insist_on_reason, operator
from reconciler.operations.references import volume_of
from reconciler.operations.signals import Interrupts
from reconciler.operations.specs import read_desired
from reconciler.operations.storage.reopen_call import Call, unfinished
from reconciler.operations.storage.storage import storage_of
from reconciler.planner.storage.reopen import reopening_of
from reconciler.store.journal import Journal
from reconciler.store.snapshot import read_world
from reconciler.store.tables import reopenings
from reconciler.store.tables.reopenings import formers

PATIENCE_SECONDS, REST_SECONDS = 900.0, 0.5
"""For whoever has taken the lock in between, and so that somebody can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """How many files the host has changed, as it counts; `left` says which it has not, and why.

    `whole`: it has looked at all of them.
    """

    reopening: Reopening
    actor: str
    reason: str
    changed: int = 0
    left: str = ""
    whole: bool = False
    problems: tuple[Problem, ...] = ()
    interrupted: bool = False


def reopen(
    fleet: Fleet,
    wish: ReopenRequest,
    ask: Callable[[Reopening], bool],
    on_progress: Callable[[HostProgress], None],
    interrupts: Interrupts,
) -> Reopened:
    """Give files to another allocation, by the word of the operator who acts.

    `ask` is shown whose they are. Raises ProblemError `usage`, `person_unknown` or `operator_only`,
    `not_found`, `reopen_refused`, `declined`, `plan_stale`; then nothing was done.
    """
    insist_on_reason(wish.reason)
    ref = storage_of(wish.storage)
    desired = read_desired(fleet)
    by = operator(fleet, desired, "gives files to another allocation")
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        volume = volume_of(world, ref)
        with database.snapshot() as connection:
            known = formers(connection, volume.id)
        one = reopening_of(world, known, volume, wish)
    if not ask(one):
        raise refuse("declined", "no file was touched", "run it again and answer yes")
    speaking = replace(fleet, actor=replace(fleet.actor, user=by))
    call = Call(desired=desired, on_progress=on_progress, interrupts=interrupts)
    with interrupts:
        return _carry_out(speaking, wish, one, call)


def _carry_out(fleet: Fleet, wish: ReopenRequest, one: Reopening, call: Call) -> Reopened:
    """Call by call, each under the lock and after another look at who has what."""
    found = Reopened(reopening=one, actor=fleet.actor.user, reason=wish.reason)
    begun = False
    while True:
        try:
            with writing(fleet, "storage reopen") as journal:
                _insist_on_same(journal, one, wish)
                if not begun:
                    journal.enter("reopen", reopenings.reopen, one, wish.reason)
                    begun = True
                answer = call.to_host(fleet, journal.world(), one)
                if answer.whole:
                    journal.enter("reopened", reopenings.reopened, one, answer.changed, answer.left)
        except ProblemError as error:
            if not begun:
                raise
            return replace(found, problems=(*error.problems, unfinished(one, "it was begun")))
        if answer.whole is not None:
            # Whoever has asked for the same meanwhile may have come to the end, and begun anew.
            changed = max(found.changed, answer.changed)
            found = replace(found, changed=changed, left=answer.left, whole=answer.whole)
        if answer.problem:
            return replace(found, problems=(answer.problem,), interrupted=call.interrupts.asked)
        if found.whole or call.interrupts.asked:
            over = () if found.whole else (unfinished(one, "it was interrupted"),)
            return replace(found, problems=over, interrupted=bool(over))
        detail = f"{found.changed} files so far"
        call.on_progress(HostProgress(node=one.node, phase="converge", detail=detail))
        time.sleep(REST_SECONDS)
        longer = replace(fleet.patience, seconds=max(fleet.patience.seconds, PATIENCE_SECONDS))
        fleet = replace(fleet, patience=longer)


def _insist_on_same(journal: Journal, one: Reopening, wish: ReopenRequest) -> None:
    """Raises ProblemError where something is no longer as it was shown."""
    world = journal.world()
    volume = volume_of(world, one.storage)
    if reopening_of(world, journal.read(reopenings.formers, volume.id), volume, wish) != one:
        short = f"{one.storage.project}/{one.storage.name}"
        message = f"who has {one.storage} is no longer what was shown"
        raise refuse("plan_stale", message, f"look again: gpuaas storage show {short}")
