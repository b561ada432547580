"""Compatibility: whether a node can run a bundle version, by what is known of both.

A version that a driver cannot run is refused before anybody waits for it; what nobody knows is
refused as well, unless the policy lets it pass. What an allocation has already stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from reconciler.kinds.allocation.runtime import runtime_needs
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.bundle import BUNDLES, VersionState
from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.model.host.capacity import Candidate, RuntimeNeed
from reconciler.model.host.evidence import GpuFact, NodeFacts
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.rules import Objection, first_objection
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.bundles.versions import figures, natural, newest
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.storage.attachment_rules import STAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node as bundles see it; an empty field is unknown. Its oldest driver counts."""

    name: str
    family: str
    vendor: str = ""
    cuda_max: str = ""
    driver: str = ""


def machine_of(name: str, family: str, stated: Resource | None, gpus: Iterable[GpuFact]) -> Machine:
    """The machine of a node, from its family and the drivers that it shows."""
    drivers = [gpu.driver or "" for gpu in gpus]
    return Machine(
        name=name,
        family=family,
        vendor=str(stated.spec.gpu.vendor) if stated else "",
        cuda_max=(stated.spec.base.cuda_max or "") if stated else "",
        driver=min(drivers, key=figures, default=""),
    )


def machine(node: Resource[NodeSpec], desired: Desired, facts: NodeFacts | None) -> Machine:
    stated = NODE_FAMILIES.get(desired, node.spec.family)
    return machine_of(
        node.ref.name, node.spec.family, stated, (facts.gpus if facts else None) or ()
    )


def misfit(on: Machine, need: RuntimeNeed) -> Objection | None:
    """The first rule that objects, with the nearest version that fits."""
    found = first_objection(RULES, on, need)
    return found and found._replace(why=_worded(found.why, on, need))


def objection(code: str, on: Machine, need: RuntimeNeed) -> str:
    """The objection of one rule, naming both sides; empty if it has none."""
    why = RULES[code](on, need)
    return _worded(why, on, need) if why else ""


def _worded(why: str, on: Machine, need: RuntimeNeed) -> str:
    return f"{need.bundle} {need.version} {why}; {_nearest(on, need)}"


def _nearest(on: Machine, need: RuntimeNeed) -> str:
    """The newest older version that runs there, else the oldest newer one."""
    fits = [one for one in need.others if first_objection(RULES, on, one) is None]
    fitting = sorted(fits, key=lambda one: natural(one.version))
    before = [one for one in fitting if natural(one.version) < natural(need.version)]
    if not fitting:
        return "no other version of it is known to fit"
    nearest = before[-1] if before else fitting[0]
    return f"nearest that fits: {nearest.version}"


def _other_vendor(on: Machine, need: RuntimeNeed) -> str:
    if need.vendor in ("", "none", on.vendor) or not on.vendor:
        return ""
    return f"is for GPUs of {need.vendor}, and those of {on.name} are of {on.vendor}"


def _other_family(on: Machine, need: RuntimeNeed) -> str:
    if not need.families or on.family in need.families:
        return ""
    return f"is for {', '.join(need.families)}, and {on.name} is of {on.family}"


def _old_driver(on: Machine, need: RuntimeNeed) -> str:
    wanted, there = figures(need.driver_min), figures(on.driver)
    if need.vendor == "none" or not wanted or not there or there >= wanted:
        return ""
    return f"needs driver {need.driver_min}, and {on.name} has {on.driver}"


def _new_cuda(on: Machine, need: RuntimeNeed) -> str:
    wanted, most = figures(need.cuda), figures(on.cuda_max)
    if need.vendor == "none" or not wanted or not most or wanted <= most:
        return ""
    return f"needs CUDA {need.cuda}, and family {on.family} goes up to {on.cuda_max}"


def _unknown(on: Machine, need: RuntimeNeed) -> str:
    if need.may_be_unknown or need.vendor == "none":
        return ""
    if not (need.vendor or need.families or need.driver_min or need.cuda):
        return "does not say what it runs on"
    if need.vendor and not on.vendor:
        return f"is for GPUs of {need.vendor}, and nobody knows whose {on.name} has"
    if need.driver_min and not figures(on.driver):
        return f"needs driver {need.driver_min}, and {on.name} does not tell its own"
    # A driver that is new enough is all that its CUDA asks for.
    if need.cuda and not on.cuda_max and not need.driver_min:
        return f"needs CUDA {need.cuda}, and family {on.family} does not say how far it goes"
    return ""


RULES: Mapping[str, Callable[[Machine, RuntimeNeed], str]] = MappingProxyType(
    {
        "vendor_mismatch": _other_vendor,
        "family_not_supported": _other_family,
        "driver_too_old": _old_driver,
        "cuda_too_new": _new_cuda,
        "compatibility_unknown": _unknown,
    }
)
"""Code → why a version does not run on a node, in this order; '' if it does."""


def newly_named(difference: Difference) -> frozenset[tuple[str, str]]:
    """Bundle and version of everything that the allocation was not recorded with."""
    resource, recorded = ALLOCATIONS.own(difference.resource), difference.recorded
    if resource is None:
        return frozenset()
    before = ALLOCATIONS.applied(recorded).runtimes if recorded else ()
    had = {(one.bundle, one.version) for one in before}
    return frozenset((one.bundle, one.version) for one in resource.spec.runtimes) - had


def refuse_runtimes(
    differences: Iterable[Difference],
    desired: Desired,
    world: World,
    refused: Mapping[Ref, Problem],
) -> Mapping[Ref, Problem]:
    """The problem of each allocation that may not have what it newly names, wherever it is.

    Whether a version fits an allocation without a place is a question of placement.
    """
    found = {}
    for difference in differences:
        names = newly_named(difference)
        if names and difference.ref not in refused:
            told = next(_unnameable(names, desired), None)
            recorded = difference.recorded if difference.action in STAYS else None
            node = NODES.get(desired, recorded.node) if recorded else None
            if node is not None:
                told = told or unfit(difference, node, desired, world)
            if told is not None:
                found[difference.ref] = worded(difference, told)
    return found


def unfit(
    difference: Difference, node: Resource[NodeSpec], desired: Desired, world: World
) -> Objection | None:
    """The objection to the first newly named version that cannot run on the allocation's node."""
    names = newly_named(difference)
    if not names or difference.resource is None:
        return None
    seen = world.observations.get(node.ref.name)
    on = machine(node, desired, seen.facts if seen else None)
    needs = runtime_needs(difference.resource, desired)
    told = (misfit(on, need) for need in needs if (need.bundle, need.version) in names)
    return next(filter(None, told), None)


def not_for_lack_of_room(
    candidates: Iterable[Candidate], elsewhere: Mapping[str, object]
) -> Objection | None:
    """The objection of the nearest rule, where no node would fit even with more room.

    `elsewhere` are rules that exclude a node whatever becomes of it.
    """
    left = [one for one in candidates if one.rule not in elsewhere]
    if not left or any(one.rule not in RULES for one in left):
        return None
    first = min(left, key=lambda one: (list(RULES).index(one.rule), one.node))
    others = f" (and {len(left) - 1} more nodes)" if len(left) > 1 else ""
    return Objection(first.rule, f"{first.detail}{others}")


def _unnameable(names: Iterable[tuple[str, str]], desired: Desired) -> Iterator[Objection]:
    for name, version in sorted(names):
        bundle = BUNDLES.get(desired, name)
        stated = {one.version: one.state for one in bundle.spec.versions} if bundle else {}
        active = newest(v for v, state in stated.items() if state is VersionState.ACTIVE)
        instead = f"the newest is {active}" if active else "it has no active one"
        if bundle is None:
            yield Objection("bundle_version_unknown", f"bundle {name} is not in force")
        elif version not in stated:
            why = f"no version {version} of {name} is in force; {instead}"
            yield Objection("bundle_version_unknown", why)
        elif stated.get(version) is VersionState.WITHDRAWN:
            yield Objection("bundle_withdrawn", f"{name} {version} was withdrawn; {instead}")


def worded(difference: Difference, found: Objection) -> Problem:
    """The objection as a problem of the allocation, at what it names."""
    hint = HINTS.get(found.code, HINT).format(ref=difference.ref)
    why = Refusal(found.code, found.why, hint)
    return problem_of(difference, why, "spec", "runtimes")


HINT = "name another version, or another node: gpuaas explain {ref}"
HINTS: Mapping[str, str] = MappingProxyType(
    {
        "bundle_version_unknown": "apply the bundle as well, or name a version that it has",
        "bundle_withdrawn": "name a version that is active; who has it already may keep it",
        "compatibility_unknown": "state `compatible`, or bundles.allowUnknownCompatibility in the"
        " Policy",
    }
)
