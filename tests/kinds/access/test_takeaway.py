"""Takeaway: what a reading takes is taken, and what it would add is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.kinds.access.takeaway import ROLES, remaining
from reconciler.kinds.project import Role
from reconciler.kinds.registry import KINDS
from reconciler.model.codec import encode
from reconciler.model.spec.reading import LETS_IN, Reading
from tests.fleets import public_key

ONE, TWO = public_key("one"), public_key("two")
SOON, LATER = "2026-12-01T00:00:00Z", "2027-12-01T00:00:00Z"


def normal(kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = encode(KINDS[kind].parse(spec, "x"))
    return found


def key(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "publicKey": text, **more}


USER = normal("user", {"emails": ["x@y.example"], "keys": [key("a", ONE), key("b", TWO)]})
PROJECT = normal(
    "project",
    {
        "tenant": "acme",
        "members": [{"user": "ana", "role": "owner"}, {"user": "bo", "role": "member"}],
        "quota": {"gpus": 1},
    },
)
GRANT = normal(
    "grant", {"allocation": "a", "user": "bo", "expiresAt": LATER, "reason": "x", "keys": []}
)
ALLOCATION = normal("allocation", {"sku": "s", "owner": "ana", "access": ["ana", "bo"]})


def left(kind: str, spec: Mapping[str, Any], said: Any, **how: Any) -> Any:
    return remaining(kind, spec, [Reading(file="f", spec=said, **how)])


def keys(spec: Mapping[str, Any]) -> list[str]:
    return [one["id"] for one in spec["keys"]]


def test_every_kind_that_lets_in_has_a_rule() -> None:
    for kind, spec in {
        "user": USER,
        "project": PROJECT,
        "grant": GRANT,
        "allocation": ALLOCATION,
    }.items():
        assert left(kind, spec, spec, whole=True) is spec, "the same takes nothing"
        assert left(kind, spec, {}) is spec, "who says nothing takes nothing"
    assert {"user", "project", "grant", "allocation"} == LETS_IN
    assert set(ROLES) == set(Role)


@pytest.mark.parametrize(
    ("said", "whole", "stay"),
    [
        ({"keys": [key("a", ONE)]}, False, ["a"]),
        ({"keys": [key("z", ONE)]}, False, ["a"]),
        ({"keys": []}, False, []),
        ({}, True, []),
        ({"keys": [key("a", ONE), key("b", "ssh-ed25519 AAAA")]}, False, ["a", "b"]),
        ({"keys": [key("a", ONE), key("b", 7)]}, False, ["a", "b"]),
        ({"keys": [key("a", ONE), key("b", ONE)]}, False, ["a"]),
        ({"keys": "none"}, False, ["a", "b"]),
        ({"keys": [ONE]}, False, ["a", "b"]),
        ({"keys": None}, False, ["a", "b"]),
        ({"keys": [key("c", public_key("three"))]}, True, []),
    ],
)
def test_a_key_that_is_not_named_is_gone(said: Any, whole: bool, stay: list[str]) -> None:
    """One whose text cannot be read may be the one that was applied."""
    assert keys(left("user", USER, said, whole=whole)) == stay


def test_a_user_loses_by_a_state_and_by_an_end() -> None:
    assert left("user", USER, {"state": "suspended"})["state"] == "suspended"
    assert left("user", USER, {"state": "active"}) is USER
    ended = left("user", USER, {"keys": [key("a", ONE, expiresAt=SOON), key("b", TWO)]})
    assert ended["keys"][0]["expiresAt"] == SOON
    shut = {**USER, "state": "suspended"}
    assert left("user", shut, {"state": "active"}) is shut, "nothing is given"


def test_members_go_and_roles_fall() -> None:
    told = left("project", PROJECT, {"members": [{"user": "ana", "role": "member"}]})
    assert told["members"] == [{"user": "ana", "role": "member"}]
    raised = {"members": [{"user": "ana", "role": "owner"}, {"user": "bo", "role": "owner"}]}
    assert left("project", PROJECT, raised) is PROJECT
    for odd in ([{"role": "owner"}], ["ana"], "ana", [{"user": "ana", "role": []}] * 2):
        spared = left("project", PROJECT, {"members": odd})
        assert spared["members"][0] == {"user": "ana", "role": "owner"}


def test_access_goes() -> None:
    assert left("allocation", ALLOCATION, {"access": ["bo", "eve"]})["access"] == ["bo"]
    assert left("allocation", ALLOCATION, {"access": "ana"}) is ALLOCATION


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ({"expiresAt": SOON}, "expiresAt", SOON),
        ({"expiresAt": "2028-01-01T00:00:00Z"}, "expiresAt", LATER),
        ({"expiresAt": "none"}, "expiresAt", LATER),
        ({"expiresAt": "soon"}, "expiresAt", LATER),
        ({"keys": ["a"]}, "keys", ["a"]),
        ({"options": {"forwarding": False}}, "options", {"from": [], "forwarding": False}),
        (
            {"options": {"from": ["10.0.0.0/8"]}},
            "options",
            {"from": ["10.0.0.0/8"], "forwarding": True},
        ),
    ],
)
def test_a_grant_gets_narrower(said: Any, field: str, value: Any) -> None:
    assert left("grant", GRANT, said)[field] == value


@pytest.mark.parametrize("field", ["user", "allocation"])
def test_a_grant_for_something_else_is_none_of_this(field: str) -> None:
    assert left("grant", GRANT, {field: "other"}) is None


def test_grants_of_which_nothing_is_left() -> None:
    limited = {**GRANT, "keys": ["a"], "options": {"from": ["10.0.0.0/8"], "forwarding": True}}
    assert left("grant", limited, {"keys": ["b"]}) is None
    assert left("grant", limited, {"options": {"from": ["10.1.0.0/16"]}}) is None
    assert left("grant", limited, limited, whole=True) is limited
    open_ended = {**GRANT, "expiresAt": "none"}
    assert left("grant", open_ended, {"expiresAt": SOON})["expiresAt"] == SOON
