"""Holds: changes of an unattended plan that are left for somebody to approve.

What takes access away waits for nobody (rule 9), nor does what has begun or what somebody has said
yes to before; a release that git takes back comes back. Of a change that is held, whoever would be
let in by less is let in by less all the same. Where the loop is suspended, all but that waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.kinds.access.takeaway import RULES
from reconciler.kinds.registry import KINDS
from reconciler.model.plan.plan import Action, Risk
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.reading import whole
from reconciler.planner.access.suspensions import LOOP
from reconciler.planner.approval import fingerprint_of_preparation
from reconciler.planner.automation.rules import HELD_BY_POLICY, held
from reconciler.planner.context import Situation
from reconciler.planner.core.difference import Difference, has_begun, is_consented
from reconciler.planner.core.effective_spec import as_recorded, less
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.core.risks import risk_of
from reconciler.planner.nodes.prepare import Preparation

PAUSED = "loop_suspended"

OPENS = frozenset({"user", "grant"})
"""Kinds that are nothing but a way in: without them fewer are let in."""


def hold_unattended(situation: Situation, refused: dict[Ref, Problem]) -> None:
    """Every difference that needs approval, and those that depend on one of them."""
    if not situation.unattended:
        return
    for difference in situation.differences:
        if difference.ref in refused or difference.action is Action.FROZEN:
            continue
        found = _held(difference, situation)
        if found is not None:
            refused[difference.ref] = problem_of(difference, found)
    _hold_what_needs_them(situation, refused)


def hold_preparations(
    preparations: Mapping[Ref, Preparation], situation: Situation
) -> Mapping[Ref, Problem]:
    """Preparations that need approval. Repairs are for the Policy to allow."""
    if not situation.unattended:
        return {}
    found: dict[Ref, Problem] = {}
    for ref, one in preparations.items():
        why = paused(ref, ref.name, situation)
        agreed = fingerprint_of_preparation(one) in situation.consents.get(ref, ())
        if why is None and not one.mends and not agreed:
            why = by_policy(ref, one.risk, situation)
        if why is not None:
            found[ref] = problem_of(one.resource, why)
    return found


def only_takes(difference: Difference) -> bool:
    """Whether all that a difference does is to take access away."""
    recorded, resource = difference.recorded, difference.resource
    if resource is None:
        return difference.action is Action.FORGET and difference.ref.kind in OPENS
    if recorded is None or difference.former is not None or difference.ref.kind not in RULES:
        return False
    if difference.action is not Action.CHANGE:
        return False
    left = less(as_recorded(recorded), [whole(resource)])
    return left is not None and left.digest == resource.digest


def _held(difference: Difference, situation: Situation) -> Refusal | None:
    begun = has_begun(difference, situation.world)
    if begun or difference.ref in situation.desired.lessened or only_takes(difference):
        return None
    node = _node_of(difference, situation)
    for ref in filter(None, (difference.ref, difference.former)):
        # Under another name it is the same thing, and was suspended as that.
        if (why := paused(ref, ref.name if ref.kind == "node" else node, situation)) is not None:
            return why
    agreed = is_consented(difference) or difference.ref in situation.approved
    if agreed or difference.action is Action.RESTORE:
        return None
    risk = risk_of(difference.action, is_forced=difference.ref in situation.forced)
    return by_policy(difference.ref, risk, situation)


def paused(ref: Ref, node: str, situation: Situation) -> Refusal | None:
    """Why the loop leaves it alone, if so: as a whole, or for it, its project or its node."""
    words = (LOOP, str(ref), f"project/{ref.project}", f"node/{node}")
    for word in words if situation.paused else ():
        if (one := situation.paused.get(word)) is not None:
            until = f" until {one.until}" if one.until else ""
            message = f"{one.scope} is suspended{until} by {one.actor}: {one.reason}"
            return Refusal(PAUSED, message, f"gpuaas resume {one.scope} --reason TEXT")
    return None


def _node_of(difference: Difference, situation: Situation) -> str:
    """Where it is, or may be, as far as anything of it is anywhere."""
    ref, recorded = difference.ref, difference.recorded
    if ref.kind == "node":
        return ref.name
    if recorded is not None and recorded.node:
        return recorded.node
    volume = situation.world.volumes.get(ref)
    return (
        volume.node
        if volume
        else min((claim.node for claim in situation.claims_of(ref)), default="")
    )


def by_policy(ref: Ref, risk: Risk, situation: Situation) -> Refusal | None:
    if situation.now is None:
        return None
    return held(ref, risk, situation.policy.automation, situation.now)


def _hold_what_needs_them(situation: Situation, refused: dict[Ref, Problem]) -> None:
    """Hold everything that refers to what is held and was never there."""
    coming = {d.ref for d in situation.differences if d.ref in refused and _is_new(d, refused)}
    while coming:
        found = dict(_needing(coming, situation, refused))
        refused.update(found)
        coming = {d.ref for d in situation.differences if d.ref in found and _is_new(d, refused)}


def _is_new(difference: Difference, refused: Mapping[Ref, Problem]) -> bool:
    is_held = refused[difference.ref].code in (HELD_BY_POLICY, PAUSED)
    return is_held and difference.recorded is None and difference.action is Action.CREATE


def _needing(
    coming: set[Ref], situation: Situation, refused: Mapping[Ref, Problem]
) -> Iterator[tuple[Ref, Problem]]:
    for one in situation.differences:
        if one.resource is None or one.ref in refused:
            continue
        needed = (r.ref for r in KINDS[one.ref.kind].refs(one.resource) if r.ref in coming)
        if (ref := next(needed, None)) is not None:
            message = f"it needs {ref}, which is held"
            hint = f"it goes together with that: gpuaas why {ref}"
            found = Refusal(refused[ref].code, message, hint)
            yield one.ref, problem_of(one, found)
