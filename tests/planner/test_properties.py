"""What holds for every fleet and every wish: safety properties on generated input."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.host.capacity import Shape
from reconciler.model.plan.plan import Action, Plan
from reconciler.model.state.world import World
from tests.planner.fleet import (
    allocation,
    base_fleet,
    desired,
    grant,
    project,
    storage,
    storage_class,
    user,
    world,
)
from tests.planner.walk import applied, make_plan

SKUS = ("slice-1", "slice-2", "slice-4", "whole")
Wish = Mapping[str, str]

wishes = st.dictionaries(
    st.sampled_from([f"vision/{name}" for name in "abcde"] + ["nlp/x", "nlp/y"]),
    st.sampled_from(SKUS),
    max_size=7,
)
sharing = st.sampled_from(["any", "tenant", "project"])


def documents(wish: Wish, extra: Iterable[Mapping[str, Any]] = ()) -> list[Mapping[str, Any]]:
    asked = []
    for place, sku in sorted(wish.items()):
        where, name = place.split("/")
        owner = "ana" if where == "vision" else "bo"
        asked.append(allocation(name, sku, where, owner=owner))
    return [*base_fleet(2, 4), *asked, *extra]


def settle(wish: Wish) -> tuple[World, Plan]:
    wanted = desired(documents(wish))
    first = make_plan(wanted, world(wanted))
    return applied(first, world(wanted)), first


def assert_sound(made: Plan, before: World) -> None:
    """No slot twice, no half of a request, no work for what is blocked."""
    live = [(c.node, c.slot) for c in before.claims]
    new = [(c.node, c.slot) for c in made.claims]
    assert not set(live) & set(new)
    assert max(Counter(live + new).values(), default=1) == 1
    whole = {node for node, slot in live + new if slot is None}
    sliced = {node for node, slot in live + new if slot is not None}
    assert not whole & sliced
    nodes: dict[str, set[str]] = {}
    for intent in made.claims:
        nodes.setdefault(intent.allocation_id, set()).add(intent.node)
    assert all(len(found) == 1 for found in nodes.values())
    for change in made.changes:
        if change.problem is not None:
            assert change.steps == ()
            assert change.ref not in {c.ref for c in made.claims}
        elif change.action in (Action.CREATE, Action.REPLACE) and change.placement:
            mine = [c for c in made.claims if c.allocation_id == change.allocation_id]
            assert len(mine) in (0, 1 if change.placement.shape is Shape.BAREMETAL else change.gpus)
    told = [step for change in made.changes for step in change.steps]
    assert sorted(told) == sorted(step.id for step in made.steps)
    assert len(told) == len(set(told))


@settings(max_examples=40, deadline=None)
@given(wishes, wishes)
def test_every_plan_is_sound_and_leads_to_rest(first: Wish, second: Wish) -> None:
    """F-PLC-01 PLC-04 PLC-07: from any fleet to any other, step by step, until nothing is left.

    Slots that a plan frees are free in the next one, so it may take some plans, but not many.
    """
    state, made = settle(first)
    assert_sound(made, world(desired(documents(first))))
    wanted = desired(documents(second))
    for _ in range(5):
        made = make_plan(wanted, state)
        assert_sound(made, state)
        if not made.active:
            break
        state = applied(made, state)
    assert make_plan(wanted, state).active == ()


@settings(max_examples=25, deadline=None)
@given(wishes)
def test_the_plan_of_an_applied_plan_is_empty(wish: Wish) -> None:
    """F-PLN-08: but for what still waits for a place."""
    state, first = settle(wish)
    again = make_plan(desired(documents(wish)), state)
    assert again.active == ()
    assert {c.ref for c in again.changes} == set(first.waiting) | {
        c.ref for c in first.changes if c.problem
    }


@settings(max_examples=25, deadline=None)
@given(wishes, st.randoms(use_true_random=False))
def test_order_of_documents_is_irrelevant(wish: Wish, chance: Any) -> None:
    """Determinism: files and rows in any order give the same fingerprint."""
    state, _ = settle(wish)
    extra = [grant("g", "a", "bo"), user("cy", "other"), allocation("new", "slice-2")]
    ordered = documents(wish, extra)
    unordered = list(ordered)
    chance.shuffle(unordered)
    one = make_plan(desired(ordered), state)
    assert_sound(one, state)
    other = make_plan(desired(unordered), state)
    assert one.fingerprint == other.fingerprint


@settings(max_examples=25, deadline=None)
@given(wishes, wishes)
def test_a_slot_that_is_freed_is_taken_by_nobody_in_the_same_plan(
    first: Wish, second: Wish
) -> None:
    """F-PLC-04: placement never counts on what this plan frees."""
    state, _ = settle(first)
    made = make_plan(desired(documents(second)), state)
    held = {(c.node, c.slot) for c in state.claims}
    whole = {c.node for c in state.claims if c.slot is None}
    for intent in made.claims:
        assert (intent.node, intent.slot) not in held
        assert intent.node not in whole


SCRIPT = """
from tests.planner.fleet import *
from tests.planner.walk import *
docs = [*base_fleet(3), *(allocation(f"a{n}", "slice-2") for n in range(5)), grant("g", "a1", "bo")]
print(make_plan(desired(docs)).fingerprint)
"""


def test_the_hash_seed_is_irrelevant() -> None:
    """Determinism: sets and dicts of another process order nothing."""
    root = Path(__file__).parents[2]
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(found) == 1


MODES = ("single_writer", "multi_reader", "multi_writer")
joining = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(st.sampled_from(["one", "two", ""]), st.sampled_from(["ro", "rw"])),
    max_size=4,
)


def storing(mode: str, shared: bool, wish: Mapping[str, tuple[str, str]]) -> list[Any]:
    """Two storages of one mode, and allocations that name one or none of them."""
    where = {"directory": {"path": "/srv/v", "shared": shared}, "maxAttachments": 3}
    more: dict[str, Any] = {
        "quota": {"gpus": 64, "storageGiB": 9},
        "entitlements": {"skus": ["slice-2"], "storageClasses": ["class"]},
    }
    asked = [
        allocation(n, "slice-2", storage=[{"name": s, "mode": m}] if s else [])
        for n, (s, m) in sorted(wish.items())
    ]
    fleet = [d for d in base_fleet(2, 4) if d["metadata"]["name"] != "vision"]
    return [
        *(*fleet, project("vision", "ana", **more), storage_class("class", MODES, **where)),
        *(*(storage(name, "class", accessMode=mode) for name in ("one", "two")), *asked),
    ]


def assert_shared_soundly(state: World, mode: str) -> None:
    """Nobody has what they may not have beside the others, or where it does not lie."""
    volumes = {one.id: one for one in state.volumes.values()}
    for volume in volumes.values():
        having = [one for one in state.attachments if one.volume == volume.id]
        assert len({one.allocation_id for one in having}) == len(having) <= 3
        assert all(volume.node in ("", one.node) for one in having)
        writers = sum(one.mode == "rw" for one in having)
        most = {"single_writer": 1, "multi_reader": 3, "multi_writer": 3}[mode]
        assert len(having) <= most
        assert writers <= 1 or mode == "multi_writer"


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODES), st.booleans(), joining, joining)
def test_storage_is_shared_soundly_and_comes_to_rest(
    mode: str,
    shared: bool,
    first: Mapping[str, tuple[str, str]],
    second: Mapping[str, tuple[str, str]],
) -> None:
    """F-STO-04 STO-04 STO-06: whatever is wished for, after every plan of the way there."""
    state = world(desired(storing(mode, shared, {})))
    for wish in (first, second, {}):
        wanted = desired(storing(mode, shared, wish))
        for _ in range(5):
            made = make_plan(wanted, state)
            before = {ref: one.id for ref, one in state.volumes.items()}
            state = applied(made, state)
            assert before.items() <= {ref: one.id for ref, one in state.volumes.items()}.items()
            assert_shared_soundly(state, mode)
            if not made.active:
                break
        assert not made.active
        had = {(one.allocation_id, one.storage.name) for one in state.attachments}
        for ref, one in state.recorded.items():
            for entry in one.normal["spec"].get("storage", ()) if ref.kind == "allocation" else ():
                assert (one.id, entry["name"]) in had
    assert state.attachments == ()
