"""Attaching: what a plan begins, moves and refuses of storage, a row for each rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.force_detach import Forced
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Order, Plan, Risk
from reconciler.model.ref import Ref
from reconciler.model.state.volume import VolumeState
from reconciler.model.state.world import Doubt, DoubtKind, World
from reconciler.planner.placement.explanation import explain
from reconciler.planner.storage.attachment_rules import RULES
from tests.planner.fleet import (
    NOW,
    allocation,
    base_fleet,
    desired,
    policy,
    project,
    storage,
    storage_class,
    world,
)
from tests.planner.walk import applied, line, make_plan, settled, told

MODES = ("single_writer", "multi_reader", "multi_writer")
SHARED = {"directory": {"path": "/srv/shared", "shared": True}}
CLASSES = [
    storage_class("local", MODES, directory={"path": "/srv/volumes"}, maxAttachments=2),
    storage_class("shared", MODES, **SHARED, maxAttachments=8),
    storage_class("disks", loop={"path": "/srv/disks"}),
    storage_class("there", directory={"path": "/srv/v"}, available={"nodes": ["gpu02"]}),
]
SKUS = ["slice-1", "slice-2", "slice-4", "slice-8", "whole"]
VISION = project(
    "vision",
    "ana",
    "bo",
    quota={"gpus": 64, "storageGiB": 100},
    entitlements={"skus": SKUS, "storageClasses": ["local", "shared", "disks", "there"]},
)
FLEET = [
    *(d for d in base_fleet() if d["metadata"]["name"] != "vision"),
    *(VISION, *CLASSES),
]
REF_A, DATA = "allocation/vision/a", Ref("storage", "vision", "data")
A, B = Ref("allocation", "vision", "a"), Ref("allocation", "vision", "b")


def having(name: str, *names: str, mode: str = "rw", **changes: Any) -> dict[str, Any]:
    """An allocation that names these storages."""
    return allocation(name, storage=[{"name": n, "mode": mode} for n in names], **changes)


def fleet(*more: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*FLEET, *more]


def verbs(made: Plan) -> list[str]:
    return [step.verb for step in made.steps]


def code(made: Plan, ref: str = REF_A) -> str:
    problem = line(made, ref).problem
    return problem.code if problem else ""


def with_volume(of: World, **changes: Any) -> World:
    return replace(of, volumes={DATA: replace(of.volumes[DATA], **changes)})


# What is begun.


def test_the_first_attachment_begins_the_volume_where_it_is_placed() -> None:
    """STO-01 STO-03 OBJ-03: written down as intent; the storage's own line touches no host."""
    made = make_plan(desired(fleet(storage("data"), having("a", "data"))))
    assert verbs(made) == [
        "allocation.provide",
        "runtime.write_env_file",
        "storage.attach",
        "access.sync",
    ]
    (volume,), (one,) = made.volumes, made.attachments
    assert (volume.ref, volume.node, volume.size_gib) == (DATA, "gpu01", 1)
    assert len(volume.id) == 10
    assert (one.allocation_id, one.volume) == (line(made, REF_A).allocation_id, volume.id)
    assert (one.mode, one.access, one.mount_path) == ("rw", "single_writer", "/data/data")
    (item,) = made.steps[2].item.volumes
    assert (item.id, item.make) == (volume.id, True)
    fact = made.steps[2].expected[f"attached {one.allocation_id}/data"]
    assert fact == f"{volume.id} rw at /data/data"
    assert line(made, str(DATA)).steps == ()


def test_an_applied_attachment_leaves_nothing_to_do_and_is_never_made_again() -> None:
    """F-STO-01 STO-11: with the volume recorded as made no host may make it a second time."""
    documents = fleet(storage("data"), having("a", "data"))
    state = settled(documents)
    assert make_plan(desired(documents), state).changes == ()
    grown = fleet(storage("data", sizeGiB=2), having("a", "data"))
    made = make_plan(desired(grown), state)
    assert verbs(made) == ["storage.attach"]
    (item,) = made.steps[0].item.volumes
    assert (item.make, item.size_gib) == (False, 2)
    assert line(made, REF_A).caused_by == (DATA,)
    assert "attach" not in line(made, REF_A).facts
    assert (made.volumes, made.attachments) == ((), ())
    assert make_plan(desired(grown), applied(made, state)).changes == ()


def test_what_was_begun_and_never_seen_may_be_made_once_more() -> None:
    documents = fleet(storage("data"), having("a", "data"))
    state = with_volume(settled(documents), state=VolumeState.PENDING)
    made = make_plan(desired(fleet(storage("data"), having("a", "data"), having("b"))), state)
    assert made.volumes == ()
    restarted = having("a", "data", restart={"generation": 1})
    made = make_plan(desired(fleet(storage("data"), restarted)), state)
    (attach,) = [step for step in made.steps if step.verb == "storage.attach"]
    assert attach.item.volumes[0].make


def test_a_restart_asserts_storage_again() -> None:
    """RST-06 STO-11: the attachment survives it, and is seen afterwards."""
    state = settled(fleet(storage("data"), having("a", "data")))
    again = having("a", "data", restart={"generation": 1})
    made = make_plan(desired(fleet(storage("data"), again)), state)
    assert verbs(made) == [
        "access.sync",
        "allocation.restart",
        "allocation.provide",
        "runtime.write_env_file",
        "storage.attach",
    ]
    assert "/data/data (data)" in line(made, REF_A).facts["keeps"]
    assert made.attachments == ()


def test_a_detach_by_force_interrupts() -> None:
    """STO-10: of the one that is named; a consent to what is safe holds it."""
    bare = fleet(storage("data"), storage("more"), allocation("a"), allocation("b"))
    state = settled(
        fleet(storage("data"), storage("more"), having("a", "data"), having("b", "more"))
    )
    forced = Forced(refs=("vision/a",), why="the next run waits")
    made = make_plan(desired(bare), state, forced=forced)
    ends = {str(step.ref): step.item.end for step in made.steps if step.verb == "storage.detach"}
    assert ends == {REF_A: True, "allocation/vision/b": False}
    assert (line(made, REF_A).risk, line(made, "allocation/vision/b").risk) == (
        Risk.INTERRUPTS,
        Risk.SAFE,
    )
    assert (
        "its processes that have it open or mounted are ended" in line(made, REF_A).facts["detach"]
    )
    assert made.forced == forced
    assert made.fingerprint != make_plan(desired(bare), state).fingerprint
    held = make_plan(desired(bare), state, forced=forced, hold_above=Risk.SAFE)
    problem = line(held, REF_A).problem
    assert problem is not None and problem.code == "held_for_approval"
    assert [str(step.ref) for step in held.steps] == ["allocation/vision/b"]


def test_attach_and_detach_later() -> None:
    """STO-03 STO-10: both are live, and the plan says what sessions see of it."""
    bare, with_data = (
        fleet(storage("data"), allocation("a")),
        fleet(storage("data"), having("a", "data")),
    )
    state = settled(bare)
    made = make_plan(desired(with_data), state)
    assert verbs(made) == ["storage.attach"]
    assert line(made, REF_A).facts["attach"] == "/data/data (data); open sessions see it"
    state = applied(made, state)
    made = make_plan(desired(bare), state)
    assert verbs(made) == ["storage.detach"]
    (item,) = made.steps[0].item.volumes
    assert item.last
    assert made.steps[0].order is Order.RETIRE
    assert line(made, REF_A).facts["detach"].startswith("/data/data (data); not while")
    state = applied(made, state)
    assert state.attachments == ()
    assert DATA in state.volumes
    assert make_plan(desired(bare), state).changes == ()
    assert verbs(make_plan(desired(with_data), state)) == ["storage.attach"]


def test_another_mode_is_attached_once_the_former_was_seen_to_go() -> None:
    state = settled(fleet(storage("data"), having("a", "data")))
    made = make_plan(desired(fleet(storage("data"), having("a", "data", mode="ro"))), state)
    assert [[step.verb for step in wave.steps] for wave in made.waves] == [
        ["storage.detach"],
        ["storage.attach"],
    ]
    assert [one.mode for one in made.attachments] == ["ro"]
    wanted = desired(fleet(storage("data"), having("a", "data", mode="ro")))
    assert make_plan(wanted, applied(made, state)).changes == ()


def test_what_a_failed_attach_has_left_is_detached_after_a_revert() -> None:
    """F-STO-07 F-STO-09: nothing stays half mounted because git no longer names it."""
    bare, with_data = (
        fleet(storage("data"), allocation("a")),
        fleet(storage("data"), having("a", "data")),
    )
    state = settled(bare)
    begun = applied(make_plan(desired(with_data), state), state)
    torn = replace(begun, recorded=state.recorded)
    made = make_plan(desired(bare), torn)
    assert verbs(made) == ["storage.detach"]
    assert make_plan(desired(bare), applied(made, torn)).changes == ()


def test_whom_somebody_has_cut_off_is_detached_where_it_is() -> None:
    """F-STO-04: it gets it no more, and its own host is told as soon as it answers."""
    documents = fleet(storage("data"), having("a", "data"))
    state = settled(documents)
    (one,) = state.attachments
    state = replace(with_volume(state, fenced=(one.allocation_id,)), attachments=())
    made = make_plan(desired(documents), state)
    assert verbs(made) == ["storage.detach"]
    assert made.attachments == ()
    assert make_plan(desired(documents), applied(made, state)).changes == ()


@pytest.mark.parametrize(
    ("fact", "path"),
    [
        ("{} rw at /data/data", "/data/data"),
        ("wrong: {} rw is seen ro at /mnt/x", "/mnt/x"),
        ("wrong: {} rw without nosuid is seen nowhere", "/data/data"),
        ("wrong: /x is no volume", ""),
        ("other77777 rw at /data/data", ""),
    ],
)
def test_whom_somebody_has_cut_off_is_detached_though_nobody_saw_him_get_it(
    fact: str, path: str
) -> None:
    """F-STO-04: their host was lost in the midst of it, and is back and shows it mounted."""
    state = settled(fleet(storage("data"), allocation("a"), having("b", "data")))
    id, volume = state.recorded[A].id, state.volumes[DATA].id
    seen = state.observations["gpu01"]
    shown = {**(seen.facts.platform or {}), f"attached {id}/data": fact.format(volume)}
    back = replace(seen, facts=replace(seen.facts, platform=shown))
    state = replace(
        with_volume(state, fenced=(id,)), observations={**state.observations, "gpu01": back}
    )
    documents = fleet(storage("data"), having("b", "data"))
    for one in (having("a", "data"), allocation("a")):
        made = make_plan(desired([*documents, one]), state)
        assert [step.verb for step in made.steps] == (["storage.detach"] if path else [])
        assert {v.mount_path for step in made.steps for v in step.item.volumes} <= {path}
    never_recorded = replace(state, recorded={r: o for r, o in state.recorded.items() if r != A})
    released = make_plan(desired(documents), never_recorded)
    assert ("storage.detach" in verbs(released)) is bool(path)


# What ends.


def test_a_release_ends_what_runs_before_it_detaches_and_wipes() -> None:
    """STO-07 F-STO-03: the data stays, and the plan says so."""
    state = settled(fleet(storage("data"), having("a", "data")))
    made = make_plan(desired(fleet(storage("data"))), state)
    assert verbs(made) == [
        "access.sync",
        "allocation.quarantine",
        "storage.detach",
        "allocation.release",
    ]
    assert line(made, REF_A).facts["kept"] == "storage data (1 GiB on gpu01)"
    after = applied(made, state)
    assert after.attachments == ()
    assert after.volumes[DATA].state is VolumeState.MADE


def test_quarantine_detaches_and_a_restore_attaches_again() -> None:
    documents = [policy(release={"undoMinutes": 60}), *FLEET[1:], storage("data")]
    state = settled([*documents, having("a", "data")])
    made = make_plan(desired(documents), state)
    assert verbs(made) == ["access.sync", "allocation.quarantine", "storage.detach"]
    state = applied(made, state)
    assert state.recorded[A].phase is Phase.QUARANTINED
    back = make_plan(desired([*documents, having("a", "data")]), state)
    assert [change.action for change in back.changes] == [Action.RESTORE]
    assert "storage.attach" in verbs(back)
    assert len(back.attachments) == 1
    # Who took it meanwhile keeps it.
    other = [*documents, having("b", "data")]
    taken = make_plan(
        desired([*other, having("a", "data")]), applied(make_plan(desired(other), state), state)
    )
    assert code(taken) == "writer_conflict"


@pytest.mark.parametrize(
    ("phase", "change"),
    [
        (phase, change)
        for phase in (Phase.QUARANTINED, Phase.RELEASING)
        for change in ({"storage": [{"name": "data", "mode": "rw"}]}, {"labels": {"x": "y"}})
    ],
)
def test_nothing_joins_what_is_being_taken_down(phase: Phase, change: dict[str, Any]) -> None:
    """F-PLC-07: a release that has begun is finished, and what its file asks for waits for that."""
    state = settled(fleet(storage("data"), allocation("a", expiresAt="2026-12-02T00:00:00Z")))
    leaves = replace(
        state.recorded[A],
        phase=phase,
        basis=str(phase),
        undo_until="2026-12-01T13:00:00Z",
        expires_at="2026-11-01T00:00:00Z",
    )
    state = replace(state, recorded={**state.recorded, A: leaves})
    asks = allocation("a", expiresAt="2026-11-01T00:00:00Z", **change)
    made = make_plan(desired(fleet(storage("data"), asks)), state)
    assert "storage.attach" not in verbs(made)
    assert (made.attachments, made.volumes) == ((), ())
    change_of_a = line(made, REF_A)
    if phase is Phase.QUARANTINED:
        assert code(made) == "allocation_leaving"
        assert "quarantined" in change_of_a.problem.message
    else:
        assert change_of_a.action is Action.RELEASE
        assert "joins" in change_of_a.facts


# Who may have it: a row for each rule.


def _two(
    mode: str, first: str, second: str, **changes: Any
) -> tuple[World, list[Mapping[str, Any]]]:
    """`a` has it already, on one node with `b`, which asks for it."""
    documents = fleet(storage("data", accessMode=mode, **changes), having("a", "data", mode=first))
    return settled(documents), [*documents, having("b", "data", mode=second)]


@pytest.mark.parametrize(
    ("mode", "first", "second", "refused"),
    [
        ("single_writer", "rw", "rw", True),
        ("single_writer", "ro", "ro", True),
        ("multi_reader", "ro", "ro", False),
        ("multi_reader", "rw", "ro", False),
        ("multi_reader", "ro", "rw", False),
        ("multi_reader", "rw", "rw", True),
        ("multi_writer", "rw", "rw", False),
    ],
)
def test_who_may_have_it_beside_somebody_else(
    mode: str, first: str, second: str, refused: bool
) -> None:
    """STO-04 F-STO-04: two slices of one node count as two, whichever came first."""
    state, documents = _two(mode, first, second)
    made = make_plan(desired(documents), state)
    assert code(made, str(B)) == ("writer_conflict" if refused else "")
    at_once = make_plan(desired(documents))
    codes = sorted(c.problem.code for c in at_once.changes if c.problem)
    assert codes == (["writer_conflict"] if refused else [])
    if refused:
        assert "allocation/vision/a" in line(made, str(B)).problem.message


def test_a_plan_never_counts_on_what_it_detaches_itself() -> None:
    """F-STO-04: the attach comes with the plan after the one that took it away."""
    state, _ = _two("single_writer", "rw", "rw")
    moved = fleet(storage("data"), allocation("a"), having("b", "data"))
    made = make_plan(desired(moved), state)
    assert verbs(made) == ["storage.detach"]
    assert code(made, str(B)) == "writer_conflict"
    state = applied(made, state)
    assert code(make_plan(desired(moved), state), str(B)) == ""


def test_a_silent_host_keeps_it_until_somebody_vouches() -> None:
    """F-STO-04: nobody is presumed dead."""
    state, documents = _two("single_writer", "rw", "rw")
    silent = {
        n: replace(o, facts=None, problem="host_unreachable")
        for n, o in state.observations.items()
        if n == "gpu01"
    }
    state = replace(state, observations={**state.observations, **silent})
    documents = [d for d in documents if d["metadata"]["name"] != "a"]
    made = make_plan(desired(documents), state)
    assert code(made, str(B)) == "writer_conflict"
    assert "gpuaas storage fence vision/data" in line(made, str(B)).problem.hint


def missing_volume() -> tuple[World, list[Mapping[str, Any]]]:
    state = settled(fleet(storage("data"), having("a", "data")))
    changed = having("a", "data", access=["ana", "bo"])
    state = replace(state, volumes={}, attachments=())
    return state, fleet(storage("data"), changed)


def wiping() -> tuple[World, list[Mapping[str, Any]]]:
    documents = fleet(storage("data"), having("a", "data"))
    state = settled(fleet(storage("data"), having("b", "data")))
    return with_volume(replace(state, attachments=()), state=VolumeState.WIPING), documents


def over_limit() -> tuple[World, list[Mapping[str, Any]]]:
    readers = [having(name, "data", mode="ro") for name in ("b", "c")]
    documents = fleet(storage("data", accessMode="multi_reader"), *readers)
    return settled(documents), [*documents, having("a", "data", mode="ro")]


def conflict() -> tuple[World, list[Mapping[str, Any]]]:
    documents = fleet(storage("data"), having("b", "data"))
    return settled(documents), [*documents, having("a", "data")]


def joining_in_place(class_: str, **changes: Any) -> tuple[World, list[Mapping[str, Any]]]:
    """`a` sits on gpu01 already."""
    state = settled(fleet(storage("data", class_), allocation("a")))
    return state, fleet(storage("data", class_), having("a", "data"))


def lying_elsewhere() -> tuple[World, list[Mapping[str, Any]]]:
    state, documents = joining_in_place("local")
    made = settled(fleet(storage("data"), having("b", "data")))
    return with_volume(replace(state, volumes=made.volumes), node="gpu02"), documents


CASES = {
    "storage_missing": missing_volume,
    "storage_wiping": wiping,
    "writer_conflict": conflict,
    "attach_limit": over_limit,
    "class_not_available": lambda: joining_in_place("there"),
    "storage_backend_unfit": lambda: joining_in_place("disks"),
    "storage_on_other_node": lying_elsewhere,
}


@pytest.mark.parametrize("rule", CASES)
def test_rule_refuses_by_its_name(rule: str) -> None:
    """STO-04 STO-06: and nothing of what it refuses is claimed or done."""
    state, documents = CASES[rule]()
    made = make_plan(desired(documents), state)
    assert code(made) == rule
    change = line(made, REF_A)
    assert change.problem.message.startswith("storage/vision/data: ")
    assert change.problem.hint
    assert change.steps == ()
    assert A not in {one.ref for one in (*made.claims, *made.attachments)}


def test_every_rule_has_a_case() -> None:
    assert RULES.keys() == CASES.keys()


def test_unseen_hosts_may_have_its_data_already() -> None:
    """F-STA-02: after a lost state nothing is made in the place of what may lie somewhere."""
    doubt = Doubt(node="gpu02", kind=DoubtKind.UNSEEN, reason="", since="2026-12-01T00:00:00Z")
    state = replace(settled(fleet(storage("data"), allocation("a"))), doubts=(doubt,))
    made = make_plan(desired(fleet(storage("data"), having("a", "data"))), state)
    assert code(made) == "storage_missing"
    assert "gpu02" in line(made, REF_A).problem.message


# Where it may be placed.


def test_data_on_a_node_draws_whoever_names_it() -> None:
    """Rule 14: the tightest fit is elsewhere, and the data decides."""
    before = settled(fleet(storage("data"), having("a", "data")))
    state = applied(make_plan(desired(fleet(storage("data"))), before), before)
    state = with_volume(state, node="gpu02")
    wanted = desired(fleet(storage("data"), having("b", "data")))
    made = make_plan(wanted, state)
    assert told(made) == ["create allocation/vision/b gpu02/s0"]
    found = {one.node: one.rule for one in explain(wanted, state, NOW, B, made)}
    assert found == {"gpu02": "", "gpu01": "storage_on_other_node"}


def test_two_that_share_new_data_on_a_node_are_placed_together() -> None:
    shared = storage("data", accessMode="multi_writer")
    documents = fleet(
        shared, having("a", "data", sku="slice-8"), having("b", "data", sku="slice-8")
    )
    made = make_plan(desired(documents))
    assert told(made)[:2] == [
        "blocked allocation/vision/b sku_unavailable",
        "create allocation/vision/a gpu01/s0,s1,s2,s3,s4,s5,s6,s7",
    ]
    assert "without the data of its storage" in line(made, str(B)).problem.message


def test_data_that_all_nodes_reach_binds_nobody() -> None:
    shared = storage("data", "shared", accessMode="multi_writer")
    documents = fleet(
        shared, having("a", "data", sku="slice-8"), having("b", "data", sku="slice-8")
    )
    made = make_plan(desired(documents))
    assert {one.node for one in made.attachments} == {"gpu01", "gpu02"}
    assert [one.node for one in made.volumes] == [""]


def test_a_replace_of_who_has_it_alone_waits_for_its_release() -> None:
    """STO-04: it would be its own rival."""
    state = settled(fleet(storage("data"), having("a", "data")))
    made = make_plan(desired(fleet(storage("data"), having("a", "data", sku="slice-2"))), state)
    assert code(made) == "release_first"


def test_who_names_what_is_refused_itself_is_refused_with_it() -> None:
    documents = fleet(storage("data", sizeGiB=101), having("a", "data"))
    made = make_plan(desired(documents))
    assert (code(made), code(made, str(DATA))) == ("quota_exceeded", "quota_exceeded")


def test_readers_beside_the_one_that_moves_are_no_reason_to_wait() -> None:
    """STO-06: a replace has its storage twice for a while, as far as the class allows."""
    readers = [having(name, "data", mode="ro") for name in ("a", "b")]
    roomy = storage("data", "shared", accessMode="multi_reader")
    state = settled(fleet(roomy, *readers))
    moved = having("a", "data", mode="ro", sku="slice-2")
    made = make_plan(desired(fleet(roomy, moved, readers[1])), state)
    assert code(made) == ""
    tight = storage("data", accessMode="multi_reader")
    state = settled(fleet(tight, *readers))
    made = make_plan(desired(fleet(tight, moved, readers[1])), state)
    assert code(made) == "release_first"


def test_what_a_plan_leaves_out_nobody_gets_by_it() -> None:
    """F-REAL-23: an allocation is never recorded with storage that it was not given, so that comes
    with it; and does not where it cannot be had.
    """
    state = settled(FLEET)
    wanted = desired(fleet(storage("data"), having("a", "data")))
    for only in ((REF_A,), (REF_A, str(DATA))):
        made = make_plan(wanted, state, only=only)
        assert (code(made), code(made, str(DATA))) == ("", "")
    large = desired(fleet(storage("data", sizeGiB=101), having("a", "data")))
    made = make_plan(large, state, only=(REF_A,))
    assert (code(made), code(made, str(DATA))) == ("quota_exceeded", "quota_exceeded")
    assert made.claims == ()


def test_a_mount_that_has_gone_is_put_back() -> None:
    """F-STO-05: what a host shows no more is drift of the platform's, whatever its record says."""
    documents = fleet(storage("data"), having("a", "data"))
    state = settled(documents)
    (one,) = state.attachments
    seen = state.observations["gpu01"]
    facts = replace(seen.facts, platform={"attached *": "listed"})
    lost = replace(state, observations={**state.observations, "gpu01": replace(seen, facts=facts)})
    made = make_plan(desired(documents), lost)
    assert told(made) == ["repair allocation/vision/a"]
    assert verbs(made) == ["storage.attach"]
    assert line(made, REF_A).facts["drift"] == f"attached {one.allocation_id}/data on gpu01 is gone"


def test_a_world_without_storage_is_as_it_was() -> None:
    """Nobody who names none is made otherwise by any of this."""
    documents = fleet(allocation("a"))
    made = make_plan(desired(documents), world(desired(documents)))
    assert "storage" not in str(made.steps)
    assert (made.volumes, made.attachments) == ((), ())


def test_a_record_of_a_time_without_storage_goes_on() -> None:
    """F-STO-08: with no word of storage in it, it is none that has any; it may have some later."""
    state = settled(fleet(allocation("a")))
    normal = dict(state.recorded[A].normal)
    normal["spec"] = {key: value for key, value in normal["spec"].items() if key != "storage"}
    older = replace(state.recorded[A], normal=normal, basis="")
    state = replace(state, recorded={**state.recorded, A: older})
    same = make_plan(desired(fleet(allocation("a"))), state)
    assert not [verb for verb in verbs(same) if verb.startswith("storage")]
    joins = make_plan(desired(fleet(storage("data"), having("a", "data"))), state)
    assert "storage.attach" in verbs(joins) and code(joins) == ""
    gone = make_plan(desired(fleet()), state)
    assert code(gone) == "" and "storage.detach" not in verbs(gone)
