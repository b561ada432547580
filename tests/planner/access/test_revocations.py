"""Steps that take access away say whose; and what was seen and stays is told as a note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Plan
from reconciler.model.state.world import Revocation, World
from tests.fleets import public_key
from tests.planner.fleet import NOW, allocation, base_fleet, desired, grant, project, user
from tests.planner.walk import allocation_ref, line, make_plan, settled

A = allocation_ref("a")
TRAIN = allocation("a", access=["ana", "bo"])
FLEET = [*base_fleet(), TRAIN]


def world() -> World:
    """The fleet as it was applied an hour ago."""
    at = format_moment(NOW - timedelta(hours=1))
    made = settled(FLEET)
    return replace(made, recorded={r: replace(o, applied_at=at) for r, o in made.recorded.items()})


def planned(before: World, *changes: Mapping[str, Any], drop: Iterable[str] = ()) -> Plan:
    new = {(d["kind"], d["metadata"]["name"]): d for d in changes}
    kept = [new.pop((d["kind"], d["metadata"]["name"]), d) for d in FLEET]
    documents = [d for d in (*kept, *new.values()) if d["metadata"]["name"] not in drop]
    return make_plan(desired(documents), before)


def revoked(made: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.verb, step.revokes) for step in made.steps if step.verb == "access.sync"]


def swapped(name: str, *keys: str, of: str) -> dict[str, Any]:
    """Somebody whose keys keep their names and are others."""
    one = user(name, *keys)
    for key in one["spec"]["keys"]:
        key["publicKey"] = public_key(f"{of}-{key['id']}")
    return one


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (user("bo", "desk", state="suspended"), ("bo",)),
        (project("vision", "ana"), ("bo",)),
        (allocation("a", access=["ana"]), ("bo",)),
        (user("ana", "desk"), ("ana/laptop",)),
        (swapped("ana", "laptop", "desk", of="new"), ("ana/desk", "ana/laptop")),
        (user("ana", "laptop", "desk", "third"), ()),
    ],
    ids=["suspended", "no member", "no access", "a key less", "other keys", "a key more"],
)
def test_a_step_says_whose_access_ends(change: Mapping[str, Any], lost: tuple[str, ...]) -> None:
    """ACC-10, ACC-06: by comparison of what the file was made of and is to be made of."""
    assert revoked(planned(world(), change)) == [("access.sync", lost)]


def test_a_plan_tells_whose_access_ends_and_that_a_silent_host_cannot_hear_of_it() -> None:
    """ACC-10: the line of the allocation says it before anybody applies it."""
    suspended, before = user("bo", "desk", state="suspended"), world()
    told = line(planned(before, suspended), str(A)).facts["ends"]
    assert told == "access of bo, and sessions opened by it"
    silent = {
        name: replace(one, problem="host_unreachable") for name, one in before.observations.items()
    }
    told = line(planned(replace(before, observations=silent), suspended), str(A)).facts["ends"]
    assert told.endswith("is silent: pending until it answers")
    assert "ends" not in line(planned(before, user("ana", "laptop", "desk", "x")), str(A)).facts


def test_a_new_allocation_takes_nothing_away() -> None:
    made = planned(world(), allocation("b"))
    assert revoked(made) == [("access.sync", ())]


def test_a_release_ends_the_access_of_all() -> None:
    """ACC-11"""
    assert revoked(planned(world(), drop=["a"])) == [("access.sync", ("ana", "bo"))]


def test_an_expired_grant_is_named() -> None:
    """It was in force when the file was made: that counts, not the moment of the plan."""
    end = format_moment(NOW + timedelta(hours=1))
    documents = [*base_fleet(), allocation("a"), grant("g", "a", "bo", expiresAt=end)]
    before = settled(documents)
    recorded = {**before.recorded, A: replace(before.recorded[A], applied_at=format_moment(NOW))}
    later = NOW + timedelta(hours=2)
    made = make_plan(desired(documents), replace(before, recorded=recorded), now=later)
    assert revoked(made) == [("access.sync", ("bo",))]


def test_who_still_waits_stays_named() -> None:
    """F-GRT-02: once recorded, nobody is in the specs of before; the pending one is remembered."""
    pending = Revocation(ref=A, node="gpu01", people=("cem", "bo/travel"), since="x")
    before = replace(world(), revocations=(pending,))
    made = planned(before, user("bo", "desk", state="suspended"))
    assert revoked(made) == [("access.sync", ("bo", "cem"))]


def test_a_silent_node_says_who_waits_to_be_shut_out() -> None:
    before = world()
    node = before.recorded[A].node
    silent = replace(before.observations[node], facts=None, problem="host_unreachable")
    pending = Revocation(ref=A, node=node, people=("bo",), since="x")
    made = make_plan(
        desired(FLEET),
        replace(
            before,
            observations={**before.observations, node: silent},
            revocations=(pending,),
        ),
    )
    assert made.figures.silent[node].endswith(
        "1 allocation keeps its claims; 1 revocation waits (bo)"
    )


def test_keys_of_peoples_own_are_told_and_change_nothing() -> None:
    """F-GRT-07: each key with its place; no step, no change, and another login's too."""
    before = world()
    one = before.recorded[A]
    seen = before.observations[one.node]
    assert seen.facts is not None
    stray = {
        one.login: (
            "SHA256:q0 ~/.ssh/authorized_keys",
            "cert-authority SHA256:q1 ~/.ssh/authorized_keys2",
        ),
        "old-login": ("SHA256:q2 ~/.ssh/authorized_keys",),
    }
    facts = replace(seen.facts, stray_keys=stray)
    observations = {**before.observations, one.node: replace(seen, facts=facts)}
    made = make_plan(desired(FLEET), replace(before, observations=observations))
    keys = [note for note in made.notes if note.text.startswith("key ")]
    assert [(str(note.ref), note.topic, note.text) for note in keys] == [
        (str(A), "access", "key SHA256:q0 ~/.ssh/authorized_keys opens nothing"),
        (str(A), "access", "key cert-authority SHA256:q1 ~/.ssh/authorized_keys2 opens nothing"),
        (f"node/{one.node}", "access", "key SHA256:q2 ~/.ssh/authorized_keys opens nothing"),
    ]
    assert made.changes == () and made.steps == ()
    assert made.fingerprint == make_plan(desired(FLEET), before).fingerprint
