"""`suspend`: a node, user or project is taken out of use at once.

It needs no repository in order: hosts are told by what was last applied, and of nothing else. To
take away needs no lock either (rule 25). For the loop, or a part of what it does, no host is told
anything: the next plan that nobody is asked about leaves it alone.
"""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.state.lock import NO_PATIENCE
from reconciler.model.state.world import Suspension
from reconciler.operations.access.suspension import (
    Progress,
    Suspended,
    SuspensionRequest,
    carry_out,
    suspended,
)
from reconciler.operations.access.suspension_scope import is_of_loop, known_scope
from reconciler.operations.apply.revocation import Revocations, pending
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import beside, writing
from reconciler.operations.person import insist_on_reason
from reconciler.operations.signals import Interrupts
from reconciler.planner.access.suspensions import touched
from reconciler.store.file.lock import holder
from reconciler.store.tables import suspensions


def suspend(
    fleet: Fleet, word: SuspensionRequest, on_progress: Progress, interrupts: Interrupts
) -> Suspended:
    """Take something out of use now. Raises ProblemError `not_found` or `usage` before anything is
    done.

    The suspension is recorded before anybody is waited for. A running apply keeps the lock: hosts
    that it is not working on are told here, and the others by that apply, as soon as it is done
    there.
    """
    insist_on_reason(word.reason)
    if word.until is not None and word.until <= fleet.now():
        raise refuse("usage", "its end is over already", "name a time to come")
    with interrupts:
        one = _say(fleet, word)
        if is_of_loop(one.scope):
            return suspended(one)
        try:
            with writing(replace(fleet, patience=NO_PATIENCE), "suspend") as journal:
                return carry_out(fleet, journal, one, on_progress, interrupts)
        except ProblemError as error:
            if any(problem.code != "state_locked" for problem in error.problems):
                raise
        return _carry_out_beside(fleet, one, on_progress, interrupts)


def _say(fleet: Fleet, word: SuspensionRequest) -> Suspension:
    """Record the suspension, also in a state that is restored at this very moment."""
    try:
        return _say_beside(fleet, word)
    except ProblemError as error:
        if any(problem.code != "state_older" for problem in error.problems):
            raise
    with writing(fleet, "suspend"):
        """It is brought up to date by that."""
    return _say_beside(fleet, word)


def _say_beside(fleet: Fleet, word: SuspensionRequest) -> Suspension:
    while True:
        with beside(fleet) as journal:
            file = fleet.database_file.stat().st_ino
            one = Suspension(
                scope=known_scope(fleet, journal.world(), word.scope),
                reason=word.reason,
                actor=fleet.actor.name,
                since=format_moment(fleet.now()),
                until=format_moment(word.until) if word.until else "",
            )
            journal.enter("suspend", suspensions.begin, one)
        if fleet.database_file.stat().st_ino == file:
            return one


def _carry_out_beside(
    fleet: Fleet, one: Suspension, on_progress: Progress, interrupts: Interrupts
) -> Suspended:
    """Carry it out while somebody else has the lock, who also updates what is published."""
    who = holder(fleet.state / "lock")
    with beside(fleet) as journal:
        revocations = Revocations(
            fleet=fleet,
            journal=journal,
            on_progress=on_progress,
            interrupts=interrupts,
            since=who.since if who else format_moment(fleet.now()),
        )
        found = revocations.carry(lambda world: touched(world, one.scope))
    return Suspended(
        scope=one.scope,
        reason=one.reason,
        actor=one.actor,
        since=one.since,
        until=one.until,
        done=tuple(sorted(map(str, found.done))),
        problems=(*found.problems, *pending(found.left)),
        interrupted=interrupts.asked,
    )
