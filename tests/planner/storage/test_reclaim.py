"""Storing: what is kept, taken back and wiped; a row for each rule by which it may not be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.codec import encode
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Action, Cause, Order, Risk
from reconciler.model.ref import Ref
from reconciler.model.state.volume import VolumeState
from reconciler.model.state.world import World
from reconciler.planner.storage.reclaim import RULES
from tests.planner.fleet import allocation, desired, storage, storage_class
from tests.planner.storage.test_attachment_rules import DATA, FLEET, MODES, SHARED, having
from tests.planner.walk import applied, line, make_plan, settled, told

Documents = list[Mapping[str, Any]]
OPEN = {"protect": False}
WIPED = {"protect": False, "onDelete": "wipe"}
PROJECT = Ref("project", "", "vision")


def fleet(*more: Mapping[str, Any]) -> Documents:
    return [*FLEET, *more]


def used(**changes: Any) -> World:
    """Data on gpu01 that nobody has any more."""
    documents = fleet(storage("data", **changes))
    before = settled([*documents, having("a", "data")])
    return applied(make_plan(desired(documents), before), before)


def kept(**changes: Any) -> World:
    """The same, after its document went."""
    state = used(**OPEN)
    made = make_plan(desired(FLEET), state)
    state = applied(made, state)
    volume = replace(state.volumes[DATA], state=VolumeState.KEPT, owner="ana", since="2026-11-30")
    return replace(state, volumes={DATA: replace(volume, **changes)})


# What goes.


def test_what_is_removed_is_kept() -> None:
    """F-STO-03 STO-07: no step, no risk, and the plan says that all of it stays."""
    made = make_plan(desired(FLEET), used(**OPEN))
    assert told(made) == ["forget storage/vision/data"]
    change = line(made, str(DATA))
    assert (change.steps, change.risk) == ((), Risk.SAFE)
    assert change.facts["keeps"].startswith("all its data: 1 GiB on gpu01")


def test_what_was_to_be_wiped_is_wiped_in_a_step_of_its_own_that_is_held() -> None:
    """F-STO-03 STO-07: two separate applies, and a consent that says what is destroyed."""
    state = used(**WIPED)
    made = make_plan(desired(FLEET), state)
    change, (step,) = line(made, str(DATA)), made.steps
    assert (change.action, change.risk) == (Action.RELEASE, Risk.DESTROYS)
    assert change.facts["lost"].startswith("all its data: 1 GiB on gpu01, for good")
    volume = state.volumes[DATA]
    record = f"/etc/gpuaas/volumes/{volume.id}.json"
    assert (step.verb, step.node, step.order) == ("storage.wipe", "gpu01", Order.RETIRE)
    assert encode(step.item) == {"volume": volume.id, "backend": volume.backend, "record": record}
    assert step.expected == {record: None}
    held = make_plan(desired(FLEET), state, hold_above=Risk.INTERRUPTS)
    assert line(held, str(DATA)).problem.code == "held_for_approval"
    assert held.steps == ()


def test_what_a_disk_holds_is_told_before_it_is_lost() -> None:
    """As far as its host can tell; of a plain folder nobody can."""
    for class_, told_of_it in (
        ("disks", "1 GiB on gpu01, 300 MiB used"),
        ("local", "1 GiB on gpu01"),
    ):
        state = used(**WIPED)
        backend = {"loop": {}} if class_ == "disks" else state.volumes[DATA].backend
        state = replace(state, volumes={DATA: replace(state.volumes[DATA], backend=backend)})
        seen = state.observations["gpu01"]
        shown = {state.volumes[DATA].id: {"sizeMiB": 1024, "usedMiB": 300}}
        facts = replace(seen.facts, volumes=shown)
        state = replace(
            state, observations={**state.observations, "gpu01": replace(seen, facts=facts)}
        )
        lost = line(make_plan(desired(FLEET), state), str(DATA)).facts["lost"]
        assert lost.startswith(f"all its data: {told_of_it}, for good")


def test_the_wish_to_wipe_has_to_be_applied_before() -> None:
    """F-STO-03: what git said for the first time together with the removal was never applied."""
    state = used(**OPEN)
    made = make_plan(desired(fleet(storage("data", **WIPED))), state)
    assert told(made) == ["change storage/vision/data"]
    assert told(make_plan(desired(FLEET), state)) == ["forget storage/vision/data"]
    state = applied(made, state)
    assert told(make_plan(desired(FLEET), state)) == ["release storage/vision/data"]


def test_many_wipes_at_once_look_like_a_merge_that_went_wrong() -> None:
    """F-REC-01: as many releases do; what is only kept is no loss, and is not counted."""
    for on_delete, expected in (("wipe", "removals_guard"), ("keep", "")):
        names = [f"s{number}" for number in range(6)]
        documents = [
            storage(name, accessMode="multi_writer", protect=False, onDelete=on_delete)
            for name in names
        ]
        before = settled(fleet(*documents, having("a", *names)))
        state = applied(make_plan(desired(fleet(*documents)), before), before)
        made = make_plan(desired(FLEET), state)
        codes = {c.problem.code if c.problem else "" for c in made.changes}
        assert codes == {expected}


def test_what_was_never_attached_leaves_nothing_to_wipe() -> None:
    state = settled(fleet(storage("data", **WIPED)))
    made = make_plan(desired(FLEET), state)
    assert told(made) == ["forget storage/vision/data"]
    assert line(made, str(DATA)).facts == {"data": "none: nothing was ever attached"}


def test_protected_storage_takes_two_applies() -> None:
    """Protected unless somebody says otherwise, as specs.md has it."""
    state = used()
    assert line(make_plan(desired(FLEET), state), str(DATA)).problem.code == "protected"
    state = applied(make_plan(desired(fleet(storage("data", **OPEN))), state), state)
    assert told(make_plan(desired(FLEET), state)) == ["forget storage/vision/data"]


@pytest.mark.parametrize("named", [False, True])
def test_a_wipe_that_has_begun_is_finished(named: bool) -> None:
    """Whatever git says by now: nobody can say what is left, so it is nobody's data any more."""
    state = used(**WIPED)
    begun = replace(state.volumes[DATA], state=VolumeState.WIPING)
    state = replace(state, volumes={DATA: begun})
    documents = fleet(storage("data", **WIPED)) if named else FLEET
    made = make_plan(desired(documents), state, hold_above=Risk.SAFE)
    change = line(made, str(DATA))
    assert (change.action, change.cause, change.problem) == (Action.RELEASE, Cause.CONSENTED, None)
    assert [step.verb for step in made.steps] == ["storage.wipe"]


def test_data_that_all_reach_is_wiped_where_it_was_seen() -> None:
    documents = fleet(storage("data", "shared", **WIPED))
    before = settled([*documents, having("a", "data")])
    state = applied(make_plan(desired(documents), before), before)
    record = f"/etc/gpuaas/volumes/{state.volumes[DATA].id}.json"
    state = replace(state, observations=_showing(state, "gpu02", record))
    assert [one.node for one in make_plan(desired(FLEET), state).steps] == ["gpu02"]


@pytest.mark.parametrize("shows", ["", "gpu01"])
def test_data_is_wiped_where_it_can_be(shows: str) -> None:
    """F-STA-04: a node that never could have had it does not miss it, and would say it is gone.

    That it has it, it could say as well.
    """
    here = storage_class("far", MODES, **SHARED, available={"nodes": ["gpu02"]})
    vision = next(d for d in FLEET if d["metadata"]["name"] == "vision")
    entitled = {"skus": ["slice-1"], "storageClasses": ["far"]}
    rest = [d for d in FLEET if d is not vision]
    base = [*rest, {**vision, "spec": {**vision["spec"], "entitlements": entitled}}, here]
    documents = [*base, storage("data", "far", **WIPED)]
    before = settled([*documents, having("a", "data")])
    state = applied(make_plan(desired(documents), before), before)
    record = f"/etc/gpuaas/volumes/{state.volumes[DATA].id}.json"
    state = replace(state, observations=_showing(state, shows, record))
    assert [one.node for one in make_plan(desired(base), state).steps] == ["gpu02"]
    silent = replace(state.observations["gpu02"], facts=None, problem="host_unreachable")
    state = replace(state, observations={**state.observations, "gpu02": silent})
    problem = line(make_plan(desired(base), state), str(DATA)).problem
    assert problem is not None and problem.code == "host_unreachable"


def _showing(state: World, node: str, record: str) -> Mapping[str, Observation]:
    """Only this node shows the record."""
    found = {}
    for name, seen in state.observations.items():
        paths = {path: fact for path, fact in seen.facts.paths.items() if path != record}
        there = {record: "file 0644 sha256:0"} if name == node else {}
        found[name] = replace(seen, facts=replace(seen.facts, paths={**paths, **there}))
    return found


def test_one_commit_that_removes_an_allocation_and_its_storage_keeps_the_data() -> None:
    """F-STO-03 F-STO-07: the storage waits until nobody has it; then it is kept, never wiped."""
    state = settled(fleet(storage("data", **OPEN), having("a", "data")))
    made = make_plan(desired(FLEET), state)
    assert told(made) == [
        "blocked storage/vision/data storage_in_use",
        "release allocation/vision/a",
    ]
    state = applied(made, state)
    assert told(make_plan(desired(FLEET), state)) == ["forget storage/vision/data"]


def test_a_project_stays_on_the_books_as_long_as_its_data_does() -> None:
    """F-STO-03: the number of its files is its own; who comes by its name gets none of them."""
    rest = [d for d in FLEET if d["metadata"]["name"] not in ("vision", "local")]
    state = used(**OPEN)
    made = make_plan(desired(rest), state)
    assert sorted(told(made)) == [
        "blocked project/vision in_use",
        "blocked storage_class/local in_use",
        "forget storage/vision/data",
    ]
    assert "data of storage/vision/data" in line(made, str(PROJECT)).problem.message


# What comes back.


def test_a_document_of_its_name_takes_it_back() -> None:
    """F-STO-03: as what it was; who names it then gets the volume that was there."""
    state = kept()
    made = make_plan(desired(fleet(storage("data"), having("b", "data"))), state)
    assert told(made) == ["adopt storage/vision/data", "create allocation/vision/b gpu01/s0"]
    assert line(made, str(DATA)).facts["returns"] == "data kept since 2026-11-30: 1 GiB on gpu01"
    (one,) = made.attachments
    assert (one.volume, made.volumes) == (state.volumes[DATA].id, ())
    (attach,) = [step for step in made.steps if step.verb == "storage.attach"]
    assert attach.item.volumes[0].make is False


def test_another_name_takes_it_back_by_its_former_one() -> None:
    """F-STO-03: a rename is no loss, before the data is kept and after."""
    state, new = kept(), storage("sets", formerName="data")
    made = make_plan(desired(fleet(new, having("b", "sets"))), state)
    change = line(made, "storage/vision/sets")
    assert (change.action, change.former) == (Action.ADOPT, DATA)
    assert [one.volume for one in made.attachments] == [state.volumes[DATA].id]


def test_a_rename_keeps_the_volume_and_moves_what_is_mounted() -> None:
    """F-STO-03: the place of the mount bears the name, so it goes and comes back."""
    state = settled(fleet(storage("data"), having("a", "data")))
    documents = fleet(storage("sets", formerName="data"), having("a", "sets"))
    made = make_plan(desired(documents), state)
    assert line(made, "storage/vision/sets").action is Action.RENAME
    assert [step.verb for step in made.steps] == ["storage.detach", "storage.attach"]
    assert len(made.waves) == 2
    assert [one.volume for one in made.attachments] == [state.volumes[DATA].id]
    assert made.volumes == ()


def test_what_is_being_wiped_gets_no_other_name() -> None:
    """F-STO-03 F-STO-07: its wipe goes on under the name by which it was begun."""
    state = used(**WIPED)
    state = replace(state, volumes={DATA: replace(state.volumes[DATA], state=VolumeState.WIPING)})
    made = make_plan(desired(fleet(storage("sets", formerName="data"))), state)
    assert sorted(told(made)) == [
        "blocked storage/vision/sets rename_unsound",
        "release storage/vision/data",
    ]
    assert "being wiped" in line(made, "storage/vision/sets").problem.message
    assert [step.verb for step in made.steps] == ["storage.wipe"]


def test_of_two_with_data_none_becomes_the_other() -> None:
    """F-STO-03: else what was to be kept under the other's name would be wiped, or be swapped."""
    both = [storage("data", **WIPED), storage("sets", **OPEN)]
    state = settled(fleet(*both, having("a", "data", "sets")))
    state = applied(make_plan(desired(fleet(*both)), state), state)
    over = fleet(storage("sets", formerName="data", **OPEN))
    swapped = fleet(storage("data", formerName="sets"), storage("sets", formerName="data"))
    for documents, names in ((over, ["data"]), (swapped, ["data", "sets"])):
        made = make_plan(desired(documents), state)
        assert told(made) == [f"blocked storage/vision/{name} rename_unsound" for name in names]
        assert made.steps == ()
    again = fleet(storage("sets", formerName="data", **OPEN), storage("data", **WIPED))
    assert make_plan(desired(again), state).changes == ()


def test_a_rename_that_was_torn_is_finished() -> None:
    """F-STO-03 F-STO-08: it has its new name, and its host the old one until it lets go of it."""
    state = settled(fleet(storage("data"), having("a", "data")))
    documents = fleet(storage("sets", formerName="data"), having("a", "sets"))
    made = make_plan(desired(documents), state)
    (known,), new = state.attachments, DATA._replace(name="sets")
    recorded = {ref: one for ref, one in state.recorded.items() if ref != DATA}
    torn = replace(
        state,
        recorded={**recorded, new: replace(state.recorded[DATA], ref=new)},
        volumes={new: state.volumes[DATA]},
    )
    again = make_plan(desired(documents), torn)
    assert again.steps == made.steps and again.attachments == made.attachments
    (detach,) = (step for step in again.steps if step.verb == "storage.detach")
    assert detach.item.volumes[0].name == known.storage.name == "data"


# A row for each rule.


def pinned() -> tuple[World, Documents]:
    return settled(FLEET), fleet(storage("data", node="gpu02"))


def attached() -> tuple[World, Documents]:
    documents = fleet(storage("data", **WIPED), having("a", "data"))
    return settled(documents), fleet(having("a"))


def all_silent() -> tuple[World, Documents]:
    """Data that every node of its class reaches, of which none answers."""
    documents = fleet(storage("data", "shared", **WIPED))
    before = settled([*documents, having("a", "data")])
    state = applied(make_plan(desired(documents), before), before)
    silent = {
        name: replace(seen, facts=None, problem="host_unreachable")
        for name, seen in state.observations.items()
    }
    return replace(state, observations=silent), FLEET


def name_in_use() -> tuple[World, Documents]:
    state = settled(fleet(storage("sets", **OPEN)))
    state = replace(state, volumes=kept().volumes)
    return state, fleet(storage("data", formerName="sets"))


def adopted_smaller() -> tuple[World, Documents]:
    return kept(size_gib=9), fleet(storage("data", sizeGiB=8))


def too_much() -> tuple[World, Documents]:
    return settled(fleet(storage("sets", sizeGiB=60))), fleet(
        storage("sets", sizeGiB=60), storage("data", sizeGiB=41)
    )


CASES = {
    "operator_only": pinned,
    "storage_in_use": attached,
    "host_unreachable": all_silent,
    "rename_unsound": name_in_use,
    "adopt_unsound": adopted_smaller,
    "quota_exceeded": too_much,
}


@pytest.mark.parametrize("rule", CASES)
def test_rule_refuses_by_its_name(rule: str) -> None:
    """F-STO-07: and nothing of it is done."""
    state, documents = CASES[rule]()
    made = make_plan(desired(documents), state)
    change = line(made, str(DATA))
    assert change.problem.code == rule
    assert change.problem.message
    assert change.problem.hint
    assert change.steps == ()


def test_every_rule_has_a_case() -> None:
    assert RULES.keys() == CASES.keys()


def test_who_has_it_is_listed() -> None:
    """F-STO-07: also while it is only being attached."""
    state, documents = attached()
    torn = replace(state, volumes={DATA: replace(state.volumes[DATA], state=VolumeState.PENDING)})
    for one in (state, torn):
        problem = line(make_plan(desired(documents), one), str(DATA)).problem
        assert problem.message == "allocation/vision/a (rw, on gpu01) has it"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"backend": {"directory": {"path": "/elsewhere", "shared": False}}}, "in class local"),
        ({"size_gib": 2}, "only grow"),
        ({"size_gib": 1}, ""),
    ],
)
def test_kept_data_comes_back_as_what_it_is(changes: dict[str, Any], said: str) -> None:
    problem = line(make_plan(desired(fleet(storage("data"))), kept(**changes)), str(DATA)).problem
    assert (problem.code if problem else "") == ("adopt_unsound" if said else "")
    assert said in (problem.message if problem else "")


@pytest.mark.parametrize(
    ("sizes", "refused"),
    [
        ({"data": 100}, []),
        ({"data": 101}, ["data"]),
        ({"data": 50, "sets": 50}, []),
        ({"data": 50, "sets": 51}, ["sets"]),
    ],
)
def test_a_project_has_so_many_gib(sizes: Mapping[str, int], refused: list[str]) -> None:
    """PLC-09: counted over all that it asks for at once, kept data as well."""
    documents = fleet(*(storage(name, sizeGiB=size) for name, size in sizes.items()))
    made = make_plan(desired(documents), settled(FLEET))
    assert [c.ref.name for c in made.changes if c.problem] == refused


def test_kept_data_counts_and_growth_counts() -> None:
    state = kept(size_gib=100)
    made = make_plan(desired(fleet(storage("sets"))), state)
    assert line(made, "storage/vision/sets").problem.code == "quota_exceeded"
    state = settled(fleet(storage("data", sizeGiB=60), storage("sets", sizeGiB=40)))
    grown = fleet(storage("data", sizeGiB=61), storage("sets", sizeGiB=40))
    assert line(make_plan(desired(grown), state), str(DATA)).problem.code == "quota_exceeded"


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"sizeGiB": 2}, False),
        ({"sizeGiB": 1}, True),
        ({"accessMode": "multi_reader"}, True),
        ({"class": "shared"}, True),
        ({"onDelete": "wipe"}, False),
    ],
)
def test_what_may_change_while_it_is_attached(change: dict[str, Any], refused: bool) -> None:
    before = {"sizeGiB": 2}
    if change == {"sizeGiB": 2}:
        before = {"sizeGiB": 1}
    state = settled(fleet(storage("data", **before), having("a", "data")))
    made = make_plan(
        desired(fleet(storage("data", **{**before, **change}), having("a", "data"))), state
    )
    problem = line(made, str(DATA)).problem
    assert (problem.code if problem else "") == ("field_refused" if refused else "")


def test_the_access_mode_changes_once_nobody_has_it() -> None:
    made = make_plan(desired(fleet(storage("data", accessMode="multi_reader"))), used())
    assert told(made) == ["change storage/vision/data"]


def test_a_price_is_told_for_a_month() -> None:
    """Rule 18: exact, by the price in force."""
    prices = [{"from": "2026-01-01T00:00:00Z", "perGiBMonth": "0.03", "currency": "EUR"}]
    priced = storage_class("local", MODES, directory={"path": "/srv/volumes"}, prices=prices)
    documents = [priced if d["metadata"]["name"] == "local" else d for d in FLEET]
    made = make_plan(desired([*documents, storage("data", sizeGiB=7)]))
    told_price = line(made, str(DATA)).facts["price"]
    assert told_price == "0.21 EUR a month, 0.03 for each of 7 GiB"


def test_an_allocation_without_storage_is_warned() -> None:
    """STO-02: and one with some is told what of it outlives the release."""
    made = make_plan(desired(fleet(storage("data"), allocation("a"), having("b", "data"))))
    assert (
        line(made, "allocation/vision/a").facts["note"].startswith("no storage: nothing outlives")
    )
    note = line(made, "allocation/vision/b").facts["note"]
    assert note == "/data/data (data, rw) outlives it; home and scratch do not"
