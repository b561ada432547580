"""Stale records: hosts that still have a record of data that was wiped through another host.

A state that is made again from hosts would take that word for data. So it goes as soon as they
answer, which touches nothing else of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from reconciler.kinds.allocation.storage import record_path
from reconciler.kinds.node.spec import AdminState
from reconciler.model.plan.items.storage import ForgetItem
from reconciler.model.plan.plan import Action, Order, Step, step_id
from reconciler.model.plan.verb import Verb
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.volume import Volume
from reconciler.model.state.world import World
from reconciler.planner.core.difference import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The records that one node is asked to drop, and how a plan says so."""

    difference: Difference
    steps: tuple[Step, ...]
    facts: Mapping[str, str]


def find_words(desired: Desired, world: World, busy: Collection[Ref]) -> tuple[Words, ...]:
    """The stale records of each node that answers and has no other work."""
    return tuple(_words(desired, world, busy)) if world.wiped else ()


def _words(desired: Desired, world: World, busy: Collection[Ref]) -> Iterator[Words]:
    records = {record_path(id): one for id, one in world.wiped.items()}
    for name, seen in sorted(world.observations.items()):
        ref, paths = Ref("node", "", name), (seen.facts.paths if seen.facts else None) or {}
        told = [records[path] for path in sorted(records.keys() & paths.keys())]
        node, recorded = desired.resources.get(ref), world.recorded.get(ref)
        if not told or seen.problem or ref in busy or node is None or recorded is None:
            continue
        if node.spec.admin.state is not AdminState.LOST:
            yield Words(
                difference=Difference(
                    ref=ref, action=Action.CHANGE, resource=node, recorded=recorded
                ),
                steps=tuple(_step(ref, one) for one in told),
                facts={"forgets": ", ".join(f"{one.ref} ({one.id}), wiped" for one in told)},
            )


def _step(node: Ref, volume: Volume) -> Step:
    record = record_path(volume.id)
    return Step(
        id=step_id(node.name, Verb.FORGET, node, volume.id),
        verb=Verb.FORGET,
        node=node.name,
        ref=node,
        order=Order.RETIRE,
        item=ForgetItem(volume=volume.id, backend=volume.backend, record=record),
        expected={record: None},
    )
