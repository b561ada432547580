"""What a rollback opens, and what it cannot bring back: a rule each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.spec.rollback import Reverted
from reconciler.model.state.volume import Volume
from reconciler.model.state.world import Counters, Recorded, Suspension, World
from reconciler.planner.diff.rollback import is_shut_since, lost, opened
from tests.planner.fleet import NOW

PAST, LATER, LATEST = (format_moment(NOW + timedelta(days=days)) for days in (-1, 1, 2))
EMPTY = World(state_id="s", serial=1, recorded={})
TRAIN = Ref("allocation", "vision", "train")


def turned(kind: str, then: Any, now: Any, **metadata: Any) -> Reverted:
    def value(spec: Any) -> Any:
        return None if spec is None else {"metadata": {"name": "train", **metadata}, "spec": spec}

    project = "vision" if kind in ("allocation", "grant", "storage") else ""
    ref = Ref(kind, project, "train")
    return Reverted(ref=ref, file="f.yaml", then=value(then), now=value(now))


def key(name: str, **more: str) -> dict[str, str]:
    return {"id": name, "publicKey": f"ssh-ed25519 AAAA{name} x", **more}


OPENS: dict[str, tuple[str, Any, Any, tuple[str, ...]]] = {
    "a key": ("user", {"keys": [key("a")]}, {"keys": []}, ("key a",)),
    "a key that stands": ("user", {"keys": [key("a")]}, {"keys": [key("a")]}, ()),
    "a key under another id": (
        "user",
        {"keys": [key("a")]},
        {"keys": [{**key("a"), "id": "b"}]},
        (),
    ),
    "a key for longer": (
        "user",
        {"keys": [key("a", expiresAt=LATEST)]},
        {"keys": [key("a", expiresAt=LATER)]},
        ("key a",),
    ),
    "a key for less": (
        "user",
        {"keys": [key("a", expiresAt=LATER)]},
        {"keys": [key("a")]},
        (),
    ),
    "a key that is over": ("user", {"keys": [key("a", expiresAt=PAST)]}, {"keys": []}, ()),
    "a person": ("user", {"keys": []}, None, ("the person",)),
    "a suspended person": ("user", {}, {"state": "suspended"}, ("the person",)),
    "a person to be suspended": ("user", {"state": "suspended"}, {}, ()),
    "an address": ("user", {"emails": ["a@x"]}, {"emails": ["b@x"]}, ("address a@x",)),
    "a login": ("user", {"osLogins": ["a"]}, {"keys": []}, ("OS login a",)),
    "a grant": ("grant", {"user": "bo", "allocation": "t"}, None, ("bo on t",)),
    "a grant that is over": (
        "grant",
        {"user": "bo", "allocation": "t", "expiresAt": PAST},
        None,
        (),
    ),
    "a grant for longer": (
        "grant",
        {"user": "bo", "allocation": "t", "expiresAt": LATEST},
        {"user": "bo", "allocation": "t", "expiresAt": LATER},
        (f"bo on t until {LATEST}",),
    ),
    "a grant for another reason": (
        "grant",
        {"user": "bo", "allocation": "t", "reason": "x"},
        {"user": "bo", "allocation": "t", "reason": "y"},
        (),
    ),
    "a grant of more": (
        "grant",
        {"user": "bo", "allocation": "t", "privilege": "sudo"},
        {"user": "bo", "allocation": "t"},
        ("bo on t",),
    ),
    "a member": ("project", {"members": [{"user": "bo", "role": "member"}]}, {}, ("bo as member",)),
    "a role": (
        "project",
        {"members": [{"user": "bo", "role": "owner"}]},
        {"members": [{"user": "bo", "role": "member"}]},
        ("bo as owner",),
    ),
    "a lesser role": (
        "project",
        {"members": [{"user": "bo", "role": "viewer"}]},
        {"members": [{"user": "bo", "role": "member"}]},
        (),
    ),
    "access": ("allocation", {"owner": "ana", "access": ["bo"]}, {"owner": "ana"}, ("bo",)),
    "an owner": ("allocation", {"owner": "ana"}, {"owner": "bo"}, ("ana",)),
    "nothing": ("sku", {"slots": 1}, {"slots": 2}, ()),
    "what is taken out": ("user", None, {"keys": [key("a")]}, ()),
}


@pytest.mark.parametrize("what", OPENS)
def test_what_it_opens(what: str) -> None:
    kind, then, now, told = OPENS[what]
    assert opened(turned(kind, then, now), NOW) == told


def test_what_is_asked_for_as_a_whole_is_not_held() -> None:
    assert not is_shut_since(turned("allocation", {"owner": "ana"}, None))
    assert is_shut_since(turned("allocation", {"owner": "ana"}, {"owner": "bo"}))
    assert is_shut_since(turned("user", {}, None)) and is_shut_since(turned("grant", {}, None))


def recorded(phase: Phase) -> World:
    one = Recorded(ref=TRAIN, normal={}, digest="d", phase=phase, undo_until=LATER)
    return replace(EMPTY, recorded={TRAIN: one})


def told(one: Reverted, world: World = EMPTY) -> str:
    return " | ".join(found.text for found in lost([one], world, NOW))


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (EMPTY, ""),
        (replace(EMPTY, counters=Counters(incarnations={TRAIN: 1})), "went with its release"),
        (recorded(Phase.RELEASING), "home and scratch are lost"),
        (recorded(Phase.QUARANTINED), f"before {LATER}"),
    ],
)
def test_the_data_of_an_allocation(world: World, words: str) -> None:
    found = told(turned("allocation", {"owner": "ana"}, None), world)
    assert words in found and bool(found) == bool(words)


def test_the_data_of_a_storage() -> None:
    ref = Ref("storage", "vision", "train")
    volume = Volume(id="v", ref=ref, class_name="disk", since=PAST)
    one = turned("storage", {"sizeGiB": 1}, None)
    assert "was wiped" in told(one, replace(EMPTY, wiped={"v": volume}))
    assert told(one, replace(EMPTY, wiped={"v": volume}, volumes={ref: volume})) == ""


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (turned("allocation", {"expiresAt": PAST}, {}), "gpuaas extend"),
        (turned("grant", {"expiresAt": PAST}, None), "opens nothing"),
        (turned("user", {"keys": [key("a", expiresAt=PAST)]}, {}), "key a is over"),
        (turned("sku", {"prices": [1]}, {"prices": [2]}), "stays charged"),
        (turned("sku", {"prices": [1]}, {"prices": [1], "slots": 2}), ""),
    ],
)
def test_times_and_prices(one: Reverted, words: str) -> None:
    found = told(one)
    assert words in found and bool(found) == bool(words)


def test_a_suspension_by_an_operator_stays() -> None:
    word = Suspension(scope="user/train", reason="x", actor="olga", since=PAST)
    world = replace(EMPTY, suspensions=(word,))
    assert "stays suspended by olga" in told(turned("user", {}, {"keys": []}), world)
    assert told(turned("user", None, {}), world) == ""


def test_a_name_that_changed_since() -> None:
    new = turned("allocation", None, {"owner": "ana"}, formerName="old")
    old = replace(turned("allocation", {"owner": "ana"}, None), ref=TRAIN._replace(name="old"))
    texts = [one.text for one in lost([new, old], EMPTY, NOW)]
    assert any("rename it back" in text for text in texts)
