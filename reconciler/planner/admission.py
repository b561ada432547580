"""Admission: what is refused whatever capacity there is, by ordered rules; the first refusal wins.

What is refused stays as it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from reconciler.kinds.node.spec import NODES
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Risk
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.rules import first_refusal
from reconciler.model.state.world import DoubtKind
from reconciler.planner.approval import fingerprint_of_preparation
from reconciler.planner.automation.guards import (
    guard_all_revocations,
    guard_folders,
    guard_projects,
    guard_removals,
)
from reconciler.planner.automation.hold import hold_preparations, hold_unattended
from reconciler.planner.context import Situation
from reconciler.planner.core.difference import LEAVING, Difference, has_begun, is_consented
from reconciler.planner.core.effective_spec import recorded_of
from reconciler.planner.core.facts import shown
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.core.risks import is_above, risk_of
from reconciler.planner.diff.change_words import refusal
from reconciler.planner.diff.name_changes import hindrance
from reconciler.planner.diff.removals import uncommitted
from reconciler.planner.nodes.prepare import Preparation
from reconciler.planner.storage.references import users_of_data

CGROUP, CGROUP_V2 = "cgroup fs", "cgroup2"


def admit(situation: Situation) -> Mapping[Ref, Problem]:
    """The problem of every difference that is refused."""
    refused: dict[Ref, Problem] = {}
    for difference in situation.differences:
        problem = difference.problem or _first_refusal(difference, situation)
        if problem is not None:
            refused[difference.ref] = problem
    guard_removals(situation, refused)
    guard_projects(situation, refused)
    guard_folders(situation, refused)
    _hold(situation, refused)
    guard_all_revocations(situation, refused)
    hold_unattended(situation, refused)
    _keep_what_is_used(situation, refused)
    return refused


def _first_refusal(difference: Difference, situation: Situation) -> Problem | None:
    found = first_refusal(RULES, difference, situation)
    return problem_of(difference, found) if found else None


def _not_yet_supported(difference: Difference, situation: Situation) -> Refusal | None:
    resource = difference.resource
    what = KINDS[resource.ref.kind].unsupported(resource) if resource else ""
    if not what:
        return None
    message = f"this version cannot do it yet: {what}"
    return Refusal("not_yet_supported", message, "take it out, or wait for a version that can")


def _rename_unsound(difference: Difference, situation: Situation) -> Refusal | None:
    """A rename has no effect on any host, so it carries nothing that has one."""
    more = [field.path for field in difference.fields if field.rule in ("replace", "restart")]
    if why := hindrance(difference, situation):
        message = f"{difference.former} cannot become {difference.ref.name}: {why}"
        return Refusal("rename_unsound", message, "take formerName out, or let its owner rename it")
    if difference.former is None or not more:
        return None
    message = f"a rename cannot be together with a change of {', '.join(more)}"
    return Refusal("rename_unsound", message, "rename first, apply that, and then change the rest")


def _field_refused(difference: Difference, situation: Situation) -> Refusal | None:
    for field in difference.fields:
        if why := refusal(difference, field, situation):
            message = f"{field.path} may not change: {why}"
            return Refusal("field_refused", message, "put the former value back, or make a new one")
    return None


def _protected(difference: Difference, situation: Situation) -> Refusal | None:
    """A protected resource, as recorded: the mark does not vanish with its file."""
    recorded = difference.recorded
    leaves = difference.action in (Action.RELEASE, Action.REPLACE, Action.FORGET)
    if recorded is None or not recorded.protect or not leaves or difference.finishing:
        return None
    if recorded.phase in LEAVING or recorded.phase is Phase.RELEASED:
        return None
    message = f"it is protected, and this would {difference.action} it"
    return Refusal("protected", message, "set protect: false, apply that, and only then remove it")


def _may_exist(difference: Difference, situation: Situation) -> Refusal | None:
    """Unknown never creates twice: it may be where nobody has looked since the state was lost."""
    ref = difference.ref
    if difference.action is not Action.CREATE or ref.kind != "allocation":
        return None
    unseen = [d.node for d in situation.world.doubts if d.kind is DoubtKind.UNSEEN]
    if not unseen or difference.recorded is not None or ref in situation.claiming:
        return None
    message = f"it may exist on {', '.join(unseen)}: nobody knows all that lies there"
    hint = f"take in what lies there: gpuaas state rebuild --node {unseen[0]}"
    return Refusal("allocation_may_exist", message, hint)


def _unfit_host(difference: Difference, situation: Situation) -> Refusal | None:
    """A host that was never prepared, and that shows already why it cannot be."""
    ref, recorded = difference.ref, difference.recorded
    resource = NODES.own(difference.resource)
    if resource is None or (recorded is not None and recorded.facts):
        return None
    seen = situation.world.observations.get(ref.name)
    if seen is None or resource.spec.isolation is not Isolation.ACCOUNT:
        return None
    if seen.problem:
        hint = HOST_HINTS.get(seen.problem, "see what it says: gpuaas node show " + ref.name)
        return Refusal(seen.problem, seen.message or "no answer", hint)
    kind = shown(seen.facts, CGROUP)
    if is_unknown(kind) or kind == CGROUP_V2:
        return None
    message = f"/sys/fs/cgroup is {kind or 'not there'}: devices cannot be kept apart without v2"
    return Refusal("cgroup_v2_required", message, HOST_HINTS["cgroup_v2_required"])


HOST_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "host_unreachable": "see that it answers to ssh, then: gpuaas apply",
        "host_identity_changed": "look at its console; a new machine is approved anew",
        "no_root_on_host": "give the control login its sudo: gpuaas node bootstrap --print",
        "no_python_on_host": "install python3 there: gpuaas node bootstrap --print does it",
        "cgroup_v2_required": "boot it with systemd.unified_cgroup_hierarchy=1",
    }
)


def _uncommitted_removal(difference: Difference, situation: Situation) -> Refusal | None:
    held = uncommitted(difference, situation)
    return Refusal(*held) if held else None


RULES: tuple[Callable[[Difference, Situation], Refusal | None], ...] = (
    _uncommitted_removal,
    _not_yet_supported,
    _rename_unsound,
    _may_exist,
    _unfit_host,
    _field_refused,
    _protected,
)


def _keep_what_is_used(situation: Situation, refused: dict[Ref, Problem]) -> None:
    """Nothing is forgotten that something which stays refers to; what is kept keeps others."""
    leaving = [d for d in situation.differences if d.action is Action.FORGET]
    if not leaving:
        return
    while True:
        users = _users_of(situation, refused)
        kept = [
            d
            for d in leaving
            if d.ref not in refused and (d.ref in users or _claimed(d, situation))
        ]
        if not kept:
            return
        for difference in kept:
            who = users.get(difference.ref)
            message = f"{who} still refers to it" if who else "allocations still hold slots of it"
            if who in situation.world.volumes and who not in situation.desired.resources:
                message = f"data of {who} lies by it, and is kept"
            hint = "remove what uses it first, apply that, and then remove this"
            refused[difference.ref] = problem_of(difference, Refusal("in_use", message, hint))


def _users_of(situation: Situation, refused: Iterable[Ref]) -> Mapping[Ref, Ref]:
    """What resources refer to that stay as recorded. Those that git wants refer to nothing gone:

    a document that did would have an error of its own, and so stay as recorded. What can come back
    keeps its project, whose number its files belong to, and so does data that is kept.
    """
    users: dict[Ref, Ref] = {Ref("project", "", ref.project): ref for ref in situation.returnable}
    users = {**users_of_data(situation.world), **users}
    for resource in recorded_of(situation.world, refused):
        for reference in KINDS[resource.ref.kind].refs(resource):
            users.setdefault(reference.ref, resource.ref)
    return users


def _claimed(difference: Difference, situation: Situation) -> bool:
    return difference.ref.kind == "node" and difference.ref.name in situation.claimed_nodes


def _hold(situation: Situation, refused: dict[Ref, Problem]) -> None:
    for difference in situation.differences:
        if has_begun(difference, situation.world) or is_consented(difference):
            continue
        if difference.ref in situation.approved:
            continue
        risk = risk_of(difference.action, is_forced=difference.ref in situation.forced)
        held = _held(risk, situation.hold_above)
        if held is not None and difference.ref not in refused:
            refused[difference.ref] = problem_of(difference, held)


def hold(preparations: Mapping[Ref, Preparation], situation: Situation) -> Mapping[Ref, Problem]:
    """The problem of every preparation whose risk the consent given before does not cover."""
    found = {
        ref: problem_of(one.resource, held)
        for ref, one in preparations.items()
        if fingerprint_of_preparation(one) not in situation.consents.get(ref, ())
        and (held := _held(one.risk, situation.hold_above)) is not None
    }
    return {**hold_preparations(preparations, situation), **found}


def _held(risk: Risk, limit: Risk | None) -> Refusal | None:
    if limit is None or not is_above(risk, limit):
        return None
    message = f"it {risk}, and the consent given covers {limit} changes"
    return Refusal("held_for_approval", message, f"gpuaas apply, or --auto-approve={risk}")
