"""Who may log in is decided once: keys, doors, what is shown and what is published agree.

A row for each thing that shuts somebody out; ana owns the allocation, bo is let in by it, and cem
by a grant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from reconciler.kinds.access.doors import doors
from reconciler.kinds.access.keys import key_lines
from reconciler.kinds.access.leave import DoorState
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Recorded, Suspension, World
from reconciler.operations.access.grant import access_rows
from reconciler.operations.inventory.allocations import allocation_rows
from reconciler.operations.inventory.stock import take_stock
from reconciler.operations.published.publish import publications
from reconciler.planner.access.suspensions import scopes_at
from reconciler.planner.core.effective_spec import recorded_of
from tests.harness.yard import Yard, laid
from tests.planner import fleet as paper
from tests.planner.fleet import NOW, SETTINGS
from tests.planner.walk import allocation_ref, settled

TRAIN = allocation_ref("train")
ALL = frozenset({"ana", "bo", "cem"})
CEM, VISION = paper.user("cem"), paper.project("vision", "ana", "bo", "cem")


@pytest.fixture(scope="module")
def whole() -> World:
    fleet = [one for one in paper.base_fleet(nodes=1) if one["metadata"]["name"] != "vision"]
    train = paper.allocation("train", access=["ana", "bo"])
    return settled([*fleet, CEM, VISION, train, paper.grant("guest", "train", "cem")])


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return laid(tmp_path_factory.mktemp("who"), {"gpu01": 1})


def changed(ref: Ref, change: Callable[[dict[str, Any]], None]) -> Callable[[World], World]:
    """With another recorded document."""

    def make(world: World) -> World:
        one = world.recorded[ref]
        normal = deepcopy(dict(one.normal))
        change(normal["spec"])
        return replace(world, recorded={**world.recorded, ref: replace(one, normal=normal)})

    return make


def in_phase(phase: Phase) -> Callable[[World], World]:
    def make(world: World) -> World:
        one: Recorded = replace(world.recorded[TRAIN], phase=phase)
        return replace(world, recorded={**world.recorded, TRAIN: one})

    return make


def suspended(scope: str, until: str = "") -> Callable[[World], World]:
    word = Suspension(
        scope=scope, reason="x", actor="olga", since="2026-11-01T00:00:00Z", until=until
    )
    return lambda world: replace(world, suspensions=(word,))


def user(name: str, **fields: Any) -> Callable[[World], World]:
    return changed(Ref("user", "", name), lambda spec: spec.update(fields))


def grant(**fields: Any) -> Callable[[World], World]:
    return changed(Ref("grant", "vision", "guest"), lambda spec: spec.update(fields))


def without(ref: Ref) -> Callable[[World], World]:
    return lambda world: replace(
        world, recorded={key: one for key, one in world.recorded.items() if key != ref}
    )


def leaves(name: str) -> Callable[[World], World]:
    def change(spec: dict[str, Any]) -> None:
        spec["members"] = [one for one in spec["members"] if one["user"] != name]

    return changed(Ref("project", "", "vision"), change)


class Case(NamedTuple):
    """Who may log in, and of these who has a key that opens."""

    change: Callable[[World], World]
    may: frozenset[str]
    keyless: frozenset[str] = frozenset()


NOBODY: frozenset[str] = frozenset()
CASES: Mapping[str, Case] = {
    "nothing": Case(lambda world: world, ALL),
    "a word on a person": Case(suspended("user/bo"), ALL - {"bo"}),
    "a word on a guest": Case(suspended("user/cem"), ALL - {"cem"}),
    "a word on the owner": Case(suspended("user/ana"), ALL - {"ana"}),
    "a word that is over": Case(suspended("user/bo", "2026-11-02T00:00:00Z"), ALL),
    "a word on the project": Case(suspended("project/vision"), NOBODY),
    "a word on another project": Case(suspended("project/nlp"), ALL),
    "a word on the node": Case(suspended("node/gpu01"), ALL),
    "a word on the loop": Case(suspended("loop"), ALL),
    "a suspended person": Case(user("bo", state="suspended"), ALL - {"bo"}),
    "a person who is gone": Case(without(Ref("user", "", "bo")), ALL - {"bo"}),
    "who has left": Case(leaves("bo"), ALL - {"bo"}),
    "a guest who has left": Case(leaves("cem"), ALL - {"cem"}),
    "a grant that is over": Case(grant(expiresAt="2026-11-01T00:00:00Z"), ALL - {"cem"}),
    "a grant that is gone": Case(without(Ref("grant", "vision", "guest")), ALL - {"cem"}),
    "a grant of root": Case(grant(privilege="sudo"), ALL - {"cem"}),
    "a person without a key": Case(user("bo", keys=[]), ALL, frozenset({"bo"})),
    "in quarantine": Case(in_phase(Phase.QUARANTINED), NOBODY),
    "while it is made": Case(in_phase(Phase.PROVIDING), NOBODY),
    "on its way out": Case(in_phase(Phase.RELEASING), NOBODY),
}


@pytest.mark.parametrize("name", CASES)
def test_all_say_the_same(whole: World, yard: Yard, name: str) -> None:
    """ACC-06, rule 10: one decision, told in five places."""
    case = CASES[name]
    world = case.change(whole)
    may, opened = case.may, case.may - case.keyless
    resources = {one.ref: one for one in recorded_of(world, world.recorded)}
    shut_out = scopes_at(world.suspensions, NOW)
    desired = Desired(settings=SETTINGS, resources=resources, digest="", suspended=shut_out)
    if world.recorded[TRAIN].phase is Phase.ACTIVE:
        train = resources[TRAIN]
        assert {line.user for line in key_lines(train, desired, NOW)} == opened, "keys"
        states = {door.user: door.state for door in doors(train, desired, NOW)}
        shown = {user for user, state in states.items() if state is DoorState.ACTIVE}
        assert shown == opened, "doors"
    reviewed = {row.user for row in access_rows(SETTINGS, world, NOW) if row.state == "active"}
    assert reviewed == opened, "access list"
    (row,) = allocation_rows(SETTINGS, world, take_stock(SETTINGS, world, NOW))
    assert set(row.access) == may, "status"
    published = {
        one.ref: one.access
        for told in publications(replace(yard.fleet(NOW), settings=SETTINGS), world)
        for one in told.allocations
    }
    assert set(published[str(TRAIN)]) == may, "published"
