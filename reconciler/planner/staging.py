"""Staging: which versions of bundles nodes are to have, and the work that makes it so.

A version is wanted on a node by the bundle itself (`stageOn`), or by an allocation that is there.
Nobody waits for it: it comes after everything else of a plan. What nobody wants or names any more
goes when newer ones have taken its place.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.kinds.allocation_runtime import place_of
from reconciler.kinds.bundle import Version, VersionState
from reconciler.kinds.contract import Context
from reconciler.kinds.policy import Repair
from reconciler.model.capacity import Isolation
from reconciler.model.evidence import NodeFacts
from reconciler.model.lifecycle import Phase
from reconciler.model.plan import Action, Order, Step, step_id
from reconciler.model.ref import Ref
from reconciler.model.resource import Resource
from reconciler.planner.diff import Difference
from reconciler.planner.ending import policy_of
from reconciler.planner.seating import Seat, Unseated

STAGE, REPAIR, DISCARD = "runtime.stage", "runtime.repair", "runtime.discard"
STAGING = frozenset({STAGE, REPAIR})
ACTIVATE, PROGRAM = "runtime/activate.sh.j2", "node/stage.py"
OUT_OF_REACH = frozenset({"unavailable", "lost"})

Place = tuple[str, str]
"""A node and the name of a bundle."""

_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The work of one bundle: what is built where, put right and taken away."""

    bundle: Ref
    steps: tuple[Step, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_repairs(self) -> bool:
        """Whether hosts only show otherwise what was made there."""
        return all(step.verb == REPAIR for step in self.steps)


def find_stagings(
    context: Context,
    seats: Mapping[Ref, Seat | Unseated],
    changed: Mapping[Ref, Difference],
    preparing: Collection[Ref],
) -> Mapping[Ref, Staging]:
    """By bundle; `preparing` are nodes that this plan makes ready."""
    leaving = {ref for ref, one in changed.items() if one.action is Action.RELEASE}
    wants = wanted(context, seats, leaving)
    nodes = dict(_nodes(context, preparing))
    found: dict[Ref, list[Step]] = defaultdict(list)
    for (node, name), versions in sorted(wants.items()):
        if node in nodes:
            bundle = context.desired.get("bundle", name)
            if bundle is not None:
                found[bundle.ref] += _of_bundle(bundle, versions, node, nodes[node], context)
    for step in _discards(context, wants, nodes):
        found[step.ref].append(step)
    return {
        ref: Staging(bundle=ref, steps=tuple(steps), facts=_told(steps))
        for ref, steps in sorted(found.items())
        if steps
    }


def after_all(steps: Iterable[Step]) -> Mapping[str, frozenset[str]]:
    """Builds wait for everything else: nobody waits for them."""
    steps = tuple(steps)
    slow = {STAGE, REPAIR, DISCARD}
    rest = frozenset(step.id for step in steps if step.verb not in slow)
    return {step.id: rest for step in steps if step.verb in slow} if rest else {}


def wanted(
    context: Context, seats: Mapping[Ref, Seat | Unseated], leaving: Collection[Ref]
) -> Mapping[Place, set[str]]:
    """Versions by place."""
    wants: dict[Place, set[str]] = defaultdict(set)
    for bundle in context.desired.of("bundle"):
        for one in bundle.spec.versions:
            if one.state is VersionState.ACTIVE:
                for node in _staged_on(one, context):
                    wants[node, bundle.ref.name].add(one.version)
    for resource in context.desired.of("allocation"):
        node = _node_of(resource, context, seats, leaving)
        for runtime in resource.spec.runtimes if node else ():
            wants[node, runtime.bundle].add(runtime.version)
    return wants


def newest(versions: Iterable[str]) -> str:
    """As people count: 2.10 comes after 2.9; empty for none."""
    return max(versions, key=_natural, default="")


def tag(bundle: str, version: str) -> str:
    """The name of the fact that tells how a version stands on a host."""
    return f"runtime {bundle}/{version}"


def _natural(version: str) -> list[tuple[int, int, str]]:
    parts = filter(None, _NUMBERS.split(version))
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def _staged_on(one: Version, context: Context) -> Iterator[str]:
    yield from one.stage_on.nodes
    if one.stage_on.families:
        for node in context.desired.of("node"):
            if node.spec.family in one.stage_on.families:
                yield node.ref.name


def _node_of(
    resource: Resource,
    context: Context,
    seats: Mapping[Ref, Seat | Unseated],
    leaving: Collection[Ref],
) -> str:
    """Where an allocation is, or is to be; empty where it is nowhere."""
    seat = seats.get(resource.ref)
    if isinstance(seat, Seat):
        return seat.placement.node
    recorded = context.world.recorded.get(resource.ref)
    if recorded is None or resource.ref in leaving or recorded.phase is not Phase.ACTIVE:
        return ""
    return recorded.node


def _nodes(context: Context, preparing: Collection[Ref]) -> Iterator[tuple[str, NodeFacts | None]]:
    """Nodes that can be asked, and what they have shown; None of one that is only made ready now.

    Of a host that does not tell its runtimes nobody knows what it lacks.
    """
    for node in context.desired.of("node"):
        if node.spec.admin.state in OUT_OF_REACH:
            continue
        seen = context.world.observations.get(node.ref.name)
        facts = seen.facts if seen and not seen.problem else None
        recorded = context.world.recorded.get(node.ref)
        ready = node.spec.isolation is not Isolation.ACCOUNT or bool(recorded and recorded.facts)
        if facts is not None and ready and "runtime *" in (facts.platform or {}):
            yield node.ref.name, facts
        elif node.ref in preparing:
            yield node.ref.name, None


def _of_bundle(
    bundle: Resource,
    versions: Collection[str],
    node: str,
    facts: NodeFacts | None,
    context: Context,
) -> Iterator[Step]:
    shown = (facts.platform if facts else None) or {}
    stated = {one.version: one for one in bundle.spec.versions}
    current = newest(v for v in versions if v in stated and stated[v].state is VersionState.ACTIVE)
    repairs = policy_of(context.desired, context.world).repair.platform is Repair.AUTO
    for version in sorted(versions, key=_natural):
        one, fact = stated.get(version), shown.get(tag(bundle.ref.name, version), "")
        if one is None or one.install is None or one.install.lock not in context.desired.locks:
            continue
        verb = REPAIR if fact.startswith("changed") else STAGE
        is_default = version == current
        if fact.startswith("staged"):
            link = shown.get(f"current {bundle.ref.name}", "")
            if not is_default or link == version:
                continue
        if verb == STAGE or repairs:
            item = _item(bundle.ref.name, one, node, context)
            yield Step(
                id=step_id(node, verb, bundle.ref, version),
                verb=verb,
                node=node,
                ref=bundle.ref,
                order=Order.ENRICH,
                item={**item, "current": current if is_default else ""},
            )


def _item(name: str, one: Version, node: str, context: Context) -> Mapping[str, Any]:
    install = one.install
    assert install is not None
    place = _root(node, context) + place_of(f"{name}@{one.version}")
    told = {"bundle": name, "version": one.version, "place": place}
    return {
        "bundle": name,
        "version": one.version,
        "python": install.python,
        "lock": context.desired.locks[install.lock],
        "lockDigest": install.lock_digest,
        "index": context.desired.settings.index.get(install.index or "", ""),
        "imports": list(one.verify.imports),
        "needMiB": 0,
        "activate": context.render(ACTIVATE, told),
        # A host was given the program when it was prepared; a folder has none.
        "program": context.render(PROGRAM, {}) if _is_folder(node, context) else "",
    }


def _is_folder(node: str, context: Context) -> bool:
    found = context.desired.get("node", node)
    return found is not None and found.spec.isolation is Isolation.DIRECTORY


def _root(node: str, context: Context) -> str:
    found = context.desired.get("node", node)
    root = found.spec.root if found else "/"
    return posixpath.join(context.desired.settings.folder, root).rstrip("/")


def _discards(
    context: Context,
    wants: Mapping[Place, set[str]],
    nodes: Mapping[str, NodeFacts | None],
) -> Iterator[Step]:
    """Of what we have put there: what nobody wants, beyond the newest that policy keeps."""
    keep = policy_of(context.desired, context.world).bundles.keep_versions
    named = _named(context)
    ours: dict[Place, set[str]] = defaultdict(set)
    for one in context.world.installs:
        ours[one.node, one.bundle].add(one.version)
    for (node, name), versions in sorted(ours.items()):
        facts = nodes.get(node)
        shown = (facts.platform if facts else None) or {}
        there = {v for v in versions if shown.get(tag(name, v), "").startswith("staged")}
        needed = wants.get((node, name), set()) | named.get((node, name), set())
        kept = set(sorted(there, key=_natural)[-keep:]) | needed
        for version in sorted(there - kept - {shown.get(f"current {name}", "")}, key=_natural):
            ref = Ref("bundle", "", name)
            yield Step(
                id=step_id(node, DISCARD, ref, version),
                verb=DISCARD,
                node=node,
                ref=ref,
                order=Order.ENRICH,
                item={"bundle": name, "version": version},
                expected={tag(name, version): None},
            )


def _named(context: Context) -> Mapping[Place, set[str]]:
    """What descriptors on hosts may name: of all that is recorded there, whatever its phase."""
    named: dict[Place, set[str]] = defaultdict(set)
    for ref, recorded in context.world.recorded.items():
        if ref.kind == "allocation" and recorded.node:
            for one in recorded.normal["spec"].get("runtimes", ()):
                named[recorded.node, one["bundle"]].add(one["version"])
    return named


def _told(steps: Iterable[Step]) -> Mapping[str, str]:
    """Each sort of work as a line of the plan: versions, and where."""
    words = {STAGE: "builds", REPAIR: "repairs", DISCARD: "removes"}
    told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        told[words[step.verb]][step.item["version"]].append(step.node)
    return {
        word: "; ".join(f"{v} on {', '.join(sorted(on))}" for v, on in sorted(versions.items()))
        for word, versions in told.items()
    }
