"""Acceptance of drift: a difference may stay for a while, by somebody's decision.

It is about what was seen. Who may log in is never let be: that would be a grant that nobody gave.
"""

from __future__ import annotations

from datetime import datetime

from reconciler.model.moment import format_moment
from reconciler.model.plan.drift import Acceptance, Becomes, Drift
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.person import insist_on_reason
from reconciler.operations.references import in_git, in_neither, ref_of
from reconciler.operations.specs import read_desired
from reconciler.planner.core.policy import is_door
from reconciler.planner.drift.detect import drifts
from reconciler.store.tables import acceptances


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptRequest:
    """What somebody accepts: `key` is the thing, as `gpuaas drift` names it."""

    ref: str
    key: str
    reason: str
    until: datetime


def accept_drift(fleet: Fleet, word: AcceptRequest) -> Acceptance:
    """Accept a drift. Raises ProblemError `drift_unseen`, `drift_unacceptable`, `usage`."""
    ref = ref_of(word.ref)
    insist_on_reason(word.reason)
    if word.until <= fleet.now():
        raise refuse("usage", "--until is over already", "name a time to come")
    desired = read_desired(fleet)
    with writing(fleet, "drift accept") as journal:
        world = journal.world()
        _insist_on_ref(ref, desired, world)
        found = drifts(desired, world, fleet.now())
        one = next((one for one in found if (one.ref, one.key) == (ref, word.key)), None)
        _insist_on_drift(one, ref, word.key)
        given = Acceptance(
            ref=ref,
            key=word.key,
            owner=fleet.actor.name,
            reason=word.reason,
            until=format_moment(word.until),
            since=format_moment(fleet.now()),
            shown=one.shown if one else None,
        )
        journal.enter("accept_drift", acceptances.accept, given)
    return given


def retract_drift(fleet: Fleet, ref_text: str, key: str, reason: str) -> Acceptance:
    """Withdraw an acceptance. Raises ProblemError `not_found`, `usage`."""
    ref = ref_of(ref_text)
    insist_on_reason(reason)
    with writing(fleet, "drift retract") as journal:
        world = journal.world()
        given = world.accepted_drift
        known = next((one for one in given if (one.ref, one.key) == (ref, key)), None)
        if known is None:
            _insist_on_ref(ref, read_desired(fleet), world)
            raise refuse(
                "not_found",
                f"nobody has accepted {key} of {ref} by hand",
                "those that there are: gpuaas drift; what the Policy accepts stands in its file",
            )
        journal.enter("retract_drift", acceptances.retract, known, reason)
    return known


def _insist_on_ref(ref: Ref, desired: Desired, world: World) -> None:
    """Refuse an unknown ref: it shows no drift either, which would be no answer."""
    known = ref in world.recorded or ref in in_git(desired)
    if not known and not any(claim.ref == ref for claim in world.claims):
        raise in_neither(ref, desired, world)


def _insist_on_drift(one: Drift | None, ref: Ref, key: str) -> None:
    if is_door(ref, key):
        raise refuse(
            "drift_unacceptable",
            f"{key} of {ref} says who may log in, and nobody can let that be",
            "for somebody who is to be let in, write a Grant; the next apply puts the rest right",
        )
    if one is None or one.becomes is Becomes.UNCHECKED:
        said = "could not be checked" if one else "shows no such drift"
        raise refuse(
            "drift_unseen",
            f"{key} of {ref} {said}: there is nothing to accept",
            "see what there is: gpuaas drift; to ask the hosts first: gpuaas plan --refresh",
        )
