"""Suspensions: what an operator took out of use, and whose access that ends (rule 10).

A node that is suspended takes nobody new, nor does any where `all` is; a person or a project is
shut out at once, and what is theirs goes on. The `loop` as a whole, or for one ref, is something
else: nobody is shut out, and plans that nobody is asked about leave that alone. Each ends by itself
where it has an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.grant import GRANTS
from reconciler.model.moment import parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.state.world import Suspension, World

SHUT_OUT = ("user/", "project/")
"""Scopes whose people are let in no more; others keep only newcomers away."""


LOOP, OF_LOOP = "loop", "loop/"
"""The scope of all that is done unattended, and the beginning of one of a part of that."""


def in_force(suspensions: Iterable[Suspension], now: datetime) -> Iterator[Suspension]:
    """Suspensions that have not ended; an unreadable end never comes."""
    for suspension in suspensions:
        end = parse_moment(suspension.until) if suspension.until else None
        if end is None or now < end:
            yield suspension


def scopes_at(suspensions: Iterable[Suspension], now: datetime) -> frozenset[str]:
    """The people and projects that are shut out."""
    scopes = (one.scope for one in in_force(suspensions, now))
    return frozenset(scope for scope in scopes if scope.startswith(SHUT_OUT))


def loop_suspensions(suspensions: Iterable[Suspension], now: datetime) -> Mapping[str, Suspension]:
    """Suspensions of the loop by their ref; that of the whole loop by the word itself."""
    return {
        one.scope.removeprefix(OF_LOOP): one
        for one in in_force(suspensions, now)
        if one.scope == LOOP or one.scope.startswith(OF_LOOP)
    }


def before(suspensions: Iterable[Suspension], moment: datetime) -> frozenset[str]:
    """Suspensions of now that were in force at an earlier moment already."""
    begun = (one for one in suspensions if (at := parse_moment(one.since)) and at < moment)
    return scopes_at(begun, moment)


def touched(world: World, scope: str) -> tuple[Ref, ...]:
    """Allocations in use whose keys may change by it, as they were last applied.

    Forgotten ones are not among them: they are not managed until git names them again.
    """
    word, _, name = scope.partition("/")
    if word not in ("user", "project"):
        return ()
    guests = {
        Ref("allocation", one.ref.project, spec.allocation)
        for one in GRANTS.recorded(world)
        if (spec := GRANTS.applied(one)).user == name
    }
    return tuple(
        one.ref
        for one in sorted(ALLOCATIONS.recorded(world), key=lambda one: one.ref)
        if one.phase is Phase.ACTIVE
        and not one.forgotten
        and (
            one.ref.project == name
            if word == "project"
            else one.ref in guests or name in ALLOCATIONS.applied(one).access
        )
    )
