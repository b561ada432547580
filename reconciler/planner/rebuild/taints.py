"""Taints: what has to be observed on a node before a restored state trusts it again.

Two questions, each with measured answers: is everything that lies there known (else it may be an
allocation that git still wants), and is everything that nobody holds clean (a slot that waited for
its proof may have been forgotten with the state). What could not be looked at answers neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reconciler.kinds.allocation.places import Known, strange_facts, strange_paths, unlisted
from reconciler.kinds.allocation.storage import recorded_volumes
from reconciler.kinds.checks.once import once
from reconciler.kinds.node.spec import NodeSpec
from reconciler.kinds.registry import KINDS
from reconciler.model.host import layout
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import Check, CheckResult, GpuFact, NodeFacts, Observation
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.rebuilt import EndedDoubt, JudgedDoubts
from reconciler.model.state.world import Doubt, DoubtKind, World
from reconciler.planner.core.effective_spec import as_recorded
from reconciler.planner.core.facts import barred

IDLE_MIB = 1024
"""Drivers keep some memory of a card for themselves; what is above that is somebody's."""

MAX_TOLD = 300
NOT_TOLD = "not told"


def judge_doubts(
    desired: Desired, world: World, doubts: Iterable[Doubt], seen: Mapping[str, Observation]
) -> JudgedDoubts:
    """Every taint whose node is among `seen`, judged."""
    ended, kept = [], []
    for doubt in doubts:
        if doubt.node not in seen:
            continue
        checks = tuple(_checks(doubt, desired, world, seen[doubt.node]))
        if checks and all(check.result is CheckResult.PASS for check in checks):
            ended.append(EndedDoubt(node=doubt.node, kind=doubt.kind, checks=checks))
        else:
            kept.append(replace(doubt, reason=_words(checks)))
    return JudgedDoubts(ended=tuple(ended), kept=tuple(kept))


def _checks(
    doubt: Doubt, desired: Desired, world: World, observation: Observation
) -> Iterator[Check]:
    node = _node(doubt.node, desired, world)
    facts = observation.facts if not observation.problem else None
    if facts is None or node is None:
        said = observation.message or observation.problem or "it is in no spec"
        yield Check(name="answer", result=CheckResult.UNKNOWN, value=said)
        return
    known = known_on(doubt.node, world)
    if doubt.kind is DoubtKind.UNSEEN:
        yield _descriptors(known, facts)
        yield _volumes(world, facts)
        return
    first_uid = desired.settings.posix.first_uid
    yield _listed("paths", _in_full(facts), lambda paths: strange_paths(paths, known, first_uid))
    if node.spec.isolation is Isolation.ACCOUNT:
        yield _tenants(known, facts)
        yield _strangers(known, facts)
    yield from _cards(node, world, facts)


def known_on(node: str, world: World) -> Known:
    """By the claims on it: an allocation has them from before its host hears of it to its proof."""
    ids = frozenset(claim.allocation_id for claim in world.claims_on(node))
    counters = world.counters
    return Known(
        ids=ids,
        logins=frozenset(counters.login_of[id] for id in ids if id in counters.login_of),
        uids=frozenset(counters.uids[id] for id in ids if id in counters.uids),
    )


def _node(name: str, desired: Desired, world: World) -> Resource | None:
    ref = Ref("node", "", name)
    found = desired.resources.get(ref)
    if found is not None and not KINDS["node"].unsupported(found):
        return found
    recorded = world.recorded.get(ref)
    return as_recorded(recorded) if recorded else None


def _descriptors(known: Known, facts: NodeFacts) -> Check:
    return _listed("allocations", facts.descriptors, lambda found: sorted(found.keys() - known.ids))


def _volumes(world: World, facts: NodeFacts) -> Check:
    """Data of anybody unknown: a storage that was new would get a second, empty volume."""
    ids = _known_volumes(world)
    return _listed(
        "data", _in_full(facts), lambda paths: sorted(set(recorded_volumes(paths)) - ids)
    )


def _in_full(facts: NodeFacts) -> Mapping[str, str] | None:
    """All paths; None where something that is no folder stands in the way to any of them."""
    if any(barred(facts, f"{place}/") for place in PLACES):
        return None
    return facts.paths


PLACES = (layout.SETTINGS, layout.HOMES, layout.SCRATCH, layout.INSTANCES)
"""Where things of allocations lie, and records of data."""


@once
def _known_volumes(world: World) -> frozenset[str]:
    return frozenset(volume.id for volume in world.volumes.values()) | world.wiped.keys()


def _tenants(known: Known, facts: NodeFacts) -> Check:
    named = facts.platform
    if named is not None and (words := unlisted(named)):
        value = f"{', '.join(words)} {NOT_TOLD}"
        return Check(name="tenants", result=CheckResult.UNKNOWN, value=value)
    return _listed("tenants", named, lambda named: strange_facts(named, known))


def _strangers(known: Known, facts: NodeFacts) -> Check:
    """What any uid of the tenants' range has there: processes, sessions, objects, files, open
    GPUs.
    """
    ours = frozenset(map(str, known.uids))
    return _listed(
        "strangers",
        facts.strangers,
        lambda found: [
            ", ".join(what) + (f" of uid {uid}" if uid.isdigit() else "")
            for uid, what in sorted(found.items())
            if uid not in ours
        ],
    )


def _cards(node: Resource[NodeSpec], world: World, facts: NodeFacts) -> Iterator[Check]:
    """Of slots that nobody holds. One whose card is not seen is given to nobody anyway."""
    if facts.gpus is None:
        yield Check(name="cards", result=CheckResult.UNKNOWN, value=NOT_TOLD)
        return
    held = {claim.slot for claim in world.claims_on(node.ref.name)}
    gpus = {gpu.uuid: gpu for gpu in facts.gpus}
    for slot in node.spec.slots:
        gpu = gpus.get(slot.gpu.uuid)
        if gpu is not None and not held & {None, slot.name}:
            yield _card(f"card of {slot.name}", gpu)
            if node.spec.isolation is Isolation.ACCOUNT:
                yield _handles(f"handles on {slot.name}", gpu, facts)


def _card(name: str, gpu: GpuFact) -> Check:
    if gpu.processes is None or gpu.memory_used_mib is None:
        return Check(name=name, result=CheckResult.UNKNOWN, value=NOT_TOLD)
    if gpu.processes:
        value = f"processes {', '.join(map(str, gpu.processes))}"
        return Check(name=name, result=CheckResult.FAIL, value=value)
    used = gpu.memory_used_mib
    if used > IDLE_MIB:
        return Check(name=name, result=CheckResult.FAIL, value=f"{used} MiB in use by nobody")
    return Check(name=name, result=CheckResult.PASS, value=f"idle, {used} MiB in use")


def _handles(name: str, gpu: GpuFact, facts: NodeFacts) -> Check:
    found = (facts.holders or {}).get(gpu.uuid)
    if found is None:
        return Check(name=name, result=CheckResult.UNKNOWN, value=NOT_TOLD)
    if found:
        return Check(name=name, result=CheckResult.FAIL, value=", ".join(found))
    return Check(name=name, result=CheckResult.PASS, value="none")


def _listed(
    name: str, told: Mapping[str, object] | None, strange: Callable[[Any], Iterable[str]]
) -> Check:
    if told is None:
        return Check(name=name, result=CheckResult.UNKNOWN, value=NOT_TOLD)
    found = list(strange(told))
    if found:
        return Check(name=name, result=CheckResult.FAIL, value=", ".join(found))
    return Check(name=name, result=CheckResult.PASS, value="all known")


def _words(checks: Iterable[Check]) -> str:
    open_ones = [
        f"{check.name} {check.value}" for check in checks if check.result is not CheckResult.PASS
    ]
    return "; ".join(open_ones)[:MAX_TOLD] or "nothing could be measured"
