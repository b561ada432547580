"""Guards: each stops the accident that it is named for, and lets the honest case through.

All of it in plans that nobody is asked about; a person who looks at a plan may do all but what is
too much for one plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.approval import Consent, Removal, fingerprint_of_all, short_id
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Change, Plan, Risk
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.state.volume import Volume, VolumeState
from reconciler.model.state.world import World
from tests.planner.fleet import (
    NOW,
    allocation,
    base_fleet,
    desired,
    grant,
    policy,
    project,
    storage,
    storage_class,
    user,
)
from tests.planner.walk import applied, line, make_plan, settled, told

ALONE = policy(automation={"allow": "destroys"})
WIDE = project("vision", "ana", "bo", quota={"gpus": 64, "allocations": 64})
NODES_AND_PEOPLE = [one for one in base_fleet(nodes=8)[1:] if one["metadata"]["name"] != "vision"]
FLEET = [ALONE, WIDE, *NODES_AND_PEOPLE]
HOUR = timedelta(hours=1)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:02}" for number in range(count)]


def fleet(
    vision: Iterable[str] = (), nlp: Iterable[str] = (), *more: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    of = [allocation(name) for name in vision]
    return [*FLEET, *of, *(allocation(name, project="nlp") for name in nlp), *more]


def alone(documents: Iterable[Mapping[str, Any]], state: World, **changes: Any) -> Plan:
    return make_plan(desired(documents), state, **{"unattended": True, **changes})


def held(made: Plan) -> dict[str, str]:
    return {str(c.ref): c.problem.code for c in made.changes if c.problem}


def approved(state: World, changes: Iterable[Change], **fields: Any) -> World:
    """The state once somebody has approved just these changes."""
    given = [
        Consent(
            **{
                "id": f"c{number}",
                "ref": one.ref,
                "action": one.action.value,
                "fingerprint": one.fingerprint,
                "actor": "olga",
                "reason": "meant",
                "at": format_moment(NOW),
                "expires_at": format_moment(NOW + 24 * HOUR),
                **fields,
            }
        )
        for number, one in enumerate(changes)
    ]
    assert all(one.fingerprint for one in given)
    return replace(state, consents=(*state.consents, *given))


def removed(state: World, made: Plan, at: str) -> World:
    """The state once that plan is carried out: what it let go of is written down with its time."""
    gone = [
        Removal(ref=c.ref, thing=c.allocation_id, at=at)
        for c in made.active
        if c.action == "release" and not c.consent
    ]
    return replace(applied(made, state), removals=(*state.removals, *gone))


# Nothing at all, and what cannot be read.


@pytest.mark.parametrize("unattended", [True, False])
def test_an_empty_source_releases_nothing(unattended: bool) -> None:
    """F-REC-01: no document at all is never a wish, whatever the policy allows."""
    state = settled(fleet(names("a", 3)))
    empty = Problem(code="spec_root_empty", message="the spec root holds no document")
    made = make_plan(desired([], problems=(empty,)), state, unattended=unattended)
    assert (made.active, made.steps, made.problems) == ((), (), (empty,))
    assert {c.action.value for c in made.changes} == {"frozen"}


def test_a_branch_with_nothing_but_a_policy_releases_nothing() -> None:
    """F-REC-01: a source that is all but empty is a whole folder gone, and whole projects."""
    state = settled(fleet(names("a", 3), names("b", 1)))
    made = alone([ALONE], state)
    codes = held(made)
    assert {c.action.value for c in made.active} <= {"forget", "change"}
    assert {code for ref, code in codes.items() if ref.startswith("allocation/")} == {
        "project_guard"
    }
    assert (codes["project/vision"], codes["project/nlp"]) == ("project_guard", "project_guard")
    # What they stand on stays as well, since it is used.
    assert codes["node/gpu01"] == "in_use"


def test_one_broken_file_freezes_what_it_held() -> None:
    """F-REC-02: two allocations and a grant in one broken file stay, and nothing is pruned."""
    of_file = [allocation("a00"), allocation("a01"), grant("bo-on-a00", "a00", "bo")]
    state = settled(fleet(["b00", "b01"], (), *of_file))
    recorded = {
        ref: replace(one, file="specs/ten.yaml") if ref.name in ("a00", "a01", "bo-on-a00") else one
        for ref, one in state.recorded.items()
    }
    state = replace(state, recorded=recorded)
    problem = Problem(code="yaml_syntax", message="no YAML")
    wanted = desired(fleet(["b00"]), broken=frozenset({"specs/ten.yaml"}), problems=(problem,))
    made = make_plan(wanted, state, unattended=True)
    frozen = {"allocation/vision/a00", "allocation/vision/a01", "grant/vision/bo-on-a00"}
    assert frozen <= {str(c.ref) for c in made.changes if c.action == "frozen"}
    # Where it stood is known; that b01 has not moved into the broken file is not.
    assert held(made)["allocation/vision/b01"] == "resource_broken"
    assert (made.active, made.steps) == ((), ())
    assert made.problems == (problem,)


# Too many.


def test_many_at_once_are_held_and_approved_by_one_word() -> None:
    """Twenty-five releases are stood for by one ID, and by no other."""
    state = settled(fleet(names("a", 30)))
    left = fleet(names("a", 30)[25:])
    made = alone(left, state)
    assert set(held(made).values()) == {"removals_guard"}
    assert len(held(made)) == 25
    prints = [c.fingerprint for c in made.changes]
    assert len(set(prints)) == 25
    whole = short_id(fingerprint_of_all(prints))
    assert all(f"all 25: {whole}" in c.problem.hint for c in made.changes if c.problem)
    agreed = alone(left, approved(state, made.changes))
    assert held(agreed) == {}
    assert {c.consent for c in agreed.active} == set(prints)
    # One of them less, and it is another set; one more, and that one is asked for by itself.
    assert fingerprint_of_all(prints[1:]) != fingerprint_of_all(prints)
    more = alone(fleet(names("a", 30)[26:]), approved(state, made.changes))
    assert (len(more.active), held(more)) == (26, {})
    most = alone(fleet(), approved(state, made.changes))
    assert set(held(most).values()) == {"project_guard"}
    assert (len(held(most)), most.active) == (30, ()), "it is the whole project by now"


@pytest.mark.parametrize("options", [{"unattended": True}, {"hold_above": Risk.DESTROYS}])
def test_five_plans_of_five_do_not_do_what_one_of_25_may_not(options: Any) -> None:
    options = {"unattended": False, **options}
    wanted = names("a", 30)
    state = settled(fleet(wanted))
    done = 0
    for hour in range(5):
        wanted = wanted[5:]
        made = alone(fleet(wanted), state, now=NOW + hour * timedelta(minutes=10), **options)
        done += len(made.active)
        if hour:
            assert set(held(made).values()) == {"removals_guard"}
            problem = made.changes[0].problem
            assert problem and "and 5 were within a day" in problem.message
        state = removed(state, made, format_moment(NOW))
    assert done == 5
    # Somebody who looks at each plan may go on in parts, as ever.
    by_hand = alone(fleet(names("a", 30)[10:]), state, unattended=False)
    assert (held(by_hand), len(by_hand.active)) == ({}, 5)


def test_a_day_later_more_may_go() -> None:
    state = settled(fleet(names("a", 30)))
    state = removed(state, alone(fleet(names("a", 30)[5:]), state), format_moment(NOW))
    left = fleet(names("a", 30)[6:])
    made = alone(left, state, now=NOW + 23 * HOUR)
    assert held(made) == {"allocation/vision/a05": "removals_guard"}
    assert made.next_moment == format_moment(NOW + 24 * HOUR)
    assert held(alone(left, state, now=NOW + 24 * HOUR)) == {}
    # And what was approved is nobody's mistake, and counts for nobody else.
    agreed = alone(left, approved(state, made.changes), now=NOW + 20 * HOUR)
    assert [c.consent != "" for c in agreed.active] == [True]


def test_a_clock_that_was_set_back_forgets_no_removal() -> None:
    """F-REC-14"""
    state = settled(fleet(names("a", 30)))
    state = removed(state, alone(fleet(names("a", 30)[5:]), state), format_moment(NOW))
    made = alone(fleet(names("a", 30)[6:]), state, now=NOW - 2 * HOUR)
    assert set(held(made).values()) == {"removals_guard"}


def test_what_has_come_back_is_no_removal() -> None:
    """A git revert within the minutes of a quarantine makes room for the next one."""
    state = settled(fleet(names("a", 30)))
    gone = [
        Removal(ref=ref, thing=one.id, at=format_moment(NOW))
        for ref, one in state.recorded.items()
        if ref.name in names("a", 5)
    ]
    state = replace(state, removals=tuple(gone))
    assert held(alone(fleet(names("a", 30)[:-1]), state)) == {}
    recorded = {
        ref: replace(one, phase=Phase.QUARANTINED) if ref.name in names("a", 5) else one
        for ref, one in state.recorded.items()
    }
    made = alone(fleet(names("a", 30)[5:-1]), replace(state, recorded=recorded))
    assert held(made) == {"allocation/vision/a29": "removals_guard"}


def test_another_one_of_the_same_name_counts_as_another_one() -> None:
    """Else five names that are made again and again let everything of a project be wiped."""
    state = settled(fleet(names("a", 30)))
    earlier = (Removal(ref=ref, thing="of-before", at=format_moment(NOW)) for ref in state.recorded)
    gone = tuple(one for one in earlier if one.ref.name in names("a", 5))
    state = replace(state, removals=gone)
    made = alone(fleet(names("a", 30)[5:]), state)
    assert set(held(made).values()) == {"removals_guard"}
    # Of what is on its way since an earlier plan it is the same one, and counts once.
    ids = {ref: one.id for ref, one in state.recorded.items()}
    state = replace(state, removals=tuple(replace(one, thing=ids[one.ref]) for one in gone))
    assert held(alone(fleet(names("a", 30)[5:]), state)) == {}


def test_data_of_the_same_name_counts_as_other_data() -> None:
    of_disk = [
        storage_class("local", directory={"path": "/srv/data"}),
        project(
            "vision",
            "ana",
            "bo",
            quota={"gpus": 8, "storageGiB": 100},
            entitlements={"skus": ["slice-1"], "storageClasses": ["local"]},
        ),
    ]
    others = [one for one in FLEET if one["metadata"]["name"] != "vision"]
    data = [storage(name, onDelete="wipe", protect=False) for name in names("d", 30)]
    state = settled([*others, *of_disk, *data])
    volumes = {
        ref: Volume(id=f"id-{ref.name}", ref=ref, class_name="local", state=VolumeState.MADE)
        for ref in state.recorded
        if ref.kind == "storage"
    }
    first = [ref for ref in volumes if ref.name in names("d", 5)]

    def left_after(things: str) -> set[str]:
        gone = tuple(
            Removal(ref=ref, thing=f"{things}-{ref.name}", at=format_moment(NOW)) for ref in first
        )
        before = replace(state, volumes=volumes, removals=gone)
        return set(held(alone([*others, *of_disk, *data[:25]], before)).values())

    assert left_after("of-before") == {"removals_guard"}
    assert left_after("id") == set()


# A whole project, a whole folder.


def test_a_whole_project_is_held_whatever_the_number() -> None:
    state = settled(fleet(["a00", "a01"], ["b00", "b01"]))
    gone = fleet(["a00", "a01"])
    made = alone(gone, state)
    assert set(held(made).items()) == {
        ("allocation/nlp/b00", "project_guard"),
        ("allocation/nlp/b01", "project_guard"),
    }
    # Some of it, or somebody who looks, may.
    assert held(alone(fleet(["a00", "a01"], ["b01"]), state)) == {}
    assert held(alone(gone, state, unattended=False)) == {}
    agreed = alone(gone, approved(state, made.changes))
    assert {str(c.ref) for c in agreed.active} == {"allocation/nlp/b00", "allocation/nlp/b01"}
    # The last one of a project is what people end with; but not the project in the same breath.
    last = settled(fleet(["a00", "a01"], ["b00"]))
    assert held(alone(gone, last)) == {}
    without = [one for one in gone if one["metadata"]["name"] != "nlp"]
    assert held(alone(without, last)) == {
        "allocation/nlp/b00": "project_guard",
        "project/nlp": "project_guard",
    }


def test_data_counts_as_what_a_project_has() -> None:
    documents = [
        storage_class("local", directory={"path": "/srv/data"}),
        project(
            "vision",
            "ana",
            "bo",
            quota={"gpus": 8, "storageGiB": 10},
            entitlements={"skus": ["slice-1"], "storageClasses": ["local"]},
        ),
    ]
    others = [one for one in FLEET if one["metadata"]["name"] != "vision"]
    data = storage("data", protect=False)
    work = allocation("a00", storage=[{"name": "data", "mode": "rw"}])
    state = settled([*others, *documents, data, work])
    made = alone([*others, *documents], state)
    assert held(made) == {
        "allocation/vision/a00": "project_guard",
        "storage/vision/data": "project_guard",
    }
    assert held(alone([*others, *documents, data], state)) == {}


def in_files(state: World, files: Mapping[str, str]) -> World:
    recorded = {
        ref: replace(one, file=files.get(str(ref), one.file)) for ref, one in state.recorded.items()
    }
    return replace(state, recorded=recorded)


VISION = {
    "allocation/vision/a00": "specs/vision/a00.yaml",
    "allocation/vision/a01": "specs/vision/more/a01.yaml",
    "grant/vision/bo-on-a00": "specs/vision/a00.yaml",
}


def test_a_whole_folder_is_held() -> None:
    kept = fleet(["keep"], ["b00"])
    more = [allocation("a00"), allocation("a01"), grant("bo-on-a00", "a00", "bo")]
    state = in_files(settled([*kept, *more]), VISION)
    made = alone(kept, state)
    assert held(made) == {
        "allocation/vision/a00": "folder_guard",
        "allocation/vision/a01": "folder_guard",
    }
    problem = line(made, "allocation/vision/a01").problem
    assert problem and "all of the folder specs/vision is gone" in problem.message
    # Whom it let in is shut out: that waits for no guard but its own (rule 9).
    assert "forget grant/vision/bo-on-a00" in told(made)
    # One that stays, or has moved, keeps it from being one.
    assert held(alone([*kept, allocation("a01")], state)) == {}
    assert held(alone(kept, state, unattended=False)) == {}
    agreed = alone(kept, approved(state, [c for c in made.changes if c.problem]))
    assert held(agreed) == {}
    assert "release allocation/vision/a00" in told(agreed)


def test_a_folder_that_nobody_can_read_is_not_gone() -> None:
    kept = fleet(["keep"], ["b00"])
    state = in_files(settled([*kept, allocation("a00"), allocation("a01")]), VISION)
    made = make_plan(desired(kept, broken=frozenset({"specs/vision"})), state, unattended=True)
    assert set(held(made).values()) == {"resource_broken"}


def test_many_who_would_be_shut_out_by_absence_are_held_and_approved() -> None:
    people = [user(f"p{number}") for number in range(8)]
    state = settled([*fleet(["a00"]), *people])
    made = alone(fleet(["a00"]), state)
    assert set(held(made).values()) == {"revocations_guard"}
    agreed = alone(fleet(["a00"]), approved(state, made.changes))
    assert (held(agreed), len(agreed.active)) == ({}, 8)


# What an approval is for, and what not.


def one_release(**automation: Any) -> tuple[list[Mapping[str, Any]], World, Change]:
    rules = policy(automation=automation)
    before = [rules, *FLEET[1:], allocation("a00"), allocation("a01")]
    state = settled(before)
    after = [rules, *FLEET[1:], allocation("a01")]
    return after, state, line(alone(after, state), "allocation/vision/a00")


def test_an_approval_lets_go_what_the_policy_holds() -> None:
    after, state, change = one_release()
    assert change.problem and change.problem.code == "held_by_policy"
    assert f"gpuaas approve {short_id(change.fingerprint)} --reason" in change.problem.hint
    agreed = alone(after, approved(state, [change]))
    assert [c.consent for c in agreed.active] == [change.fingerprint]
    used = approved(state, [change], used_at=format_moment(NOW))
    assert held(alone(after, used)) == {"allocation/vision/a00": "held_by_policy"}
    over = approved(state, [change], expires_at=format_moment(NOW))
    assert held(alone(after, over)) == {"allocation/vision/a00": "held_by_policy"}
    # What a consent that was given before does not cover is let go of as well.
    options = {"unattended": False, "hold_above": Risk.SAFE}
    assert set(held(alone(after, state, **options)).values()) == {"held_for_approval"}
    assert held(alone(after, approved(state, [change]), **options)) == {}


def test_it_is_for_one_change_as_it_was() -> None:
    """Edited after it was approved, it is held again: another fingerprint, another approval."""
    rules = policy(automation={"allow": "safe"})
    before = [rules, *FLEET[1:], allocation("a00"), allocation("a01")]
    state = settled(before)

    def restarted(generation: int, name: str = "a00", **fields: Any) -> list[Mapping[str, Any]]:
        changed = allocation(name, restart={"generation": generation}, **fields)
        return [one for one in before if one["metadata"]["name"] != name] + [changed]

    (change,) = alone(restarted(1), state).changes
    agreed = approved(state, [change])
    assert held(alone(restarted(1), agreed)) == {}
    for other in (
        restarted(2),
        restarted(1, "a01"),
        restarted(1, labels={"team": "x"}),
        [one for one in before if one["metadata"]["name"] != "a00"],
    ):
        made = alone(other, agreed)
        (still,) = [c for c in made.changes if c.problem]
        assert still.problem and still.problem.code == "held_by_policy"
        assert still.fingerprint != change.fingerprint
    # It stays what it is from tick to tick, and whatever else there is in the plan.
    later = alone([*restarted(1), allocation("new")], state, now=NOW + HOUR)
    assert line(later, "allocation/vision/a00").fingerprint == change.fingerprint


def test_what_was_applied_in_between_is_another_change() -> None:
    after, state, change = one_release()
    ref = Ref("allocation", "vision", "a00")
    agreed = approved(state, [change])
    for other in ({"generation": 2}, {"digest": "sha256:other"}, {"id": "another"}):
        recorded = {**agreed.recorded, ref: replace(agreed.recorded[ref], **other)}
        made = alone(after, replace(agreed, recorded=recorded))
        assert held(made) == {"allocation/vision/a00": "held_by_policy"}


def test_nobody_approves_what_is_protected_or_in_error() -> None:
    before = [*FLEET, allocation("a00", protect=True), allocation("a01")]
    state = settled(before)
    made = alone([*FLEET, allocation("a01")], state)
    assert held(made) == {"allocation/vision/a00": "protected"}
    assert made.changes[0].fingerprint == ""
    unprotected = alone([*FLEET, allocation("a01")], settled([*FLEET, allocation("a00")]))
    assert unprotected.changes
    with pytest.raises(AssertionError):
        approved(state, made.changes)


def test_what_was_begun_and_never_recorded_is_told_apart_by_its_claims() -> None:
    rules = policy(automation={"allow": "safe"})
    before = [rules, *FLEET[1:], allocation("a00"), allocation("a01")]
    state = settled(before)
    ref = Ref("allocation", "vision", "a00")
    left = {known: one for known, one in state.recorded.items() if known != ref}
    state = replace(state, recorded=left)
    after = [rules, *FLEET[1:], allocation("a01")]
    change = line(alone(after, state), str(ref))
    assert change.problem and change.problem.code == "held_by_policy"
    agreed = approved(state, [change])
    assert held(alone(after, agreed)) == {}
    others = tuple(
        replace(one, allocation_id="another") if one.ref == ref else one for one in agreed.claims
    )
    assert held(alone(after, replace(agreed, claims=others))) == {str(ref): "held_by_policy"}
