"""Grant: for a member who needs it, with keys they have, for a time the policy allows."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.kinds.registry import KINDS
from tests.kinds.sample import Fleet

GRANT = "grant/vision/bo-on-train-a"


def test_a_good_grant_has_no_problem() -> None:
    fleet = Fleet()
    assert fleet.problems(GRANT) == []
    assert fleet.unsupported(GRANT) == ""


def test_it_stays_in_its_project() -> None:
    """OBJ-08, F-GRT-05: an allocation of another project cannot even be named."""
    found = {str(one.ref) for one in KINDS["grant"].refs(Fleet().resource(GRANT))}
    assert found == {"project/vision", "allocation/vision/train-a", "user/bo"}


def test_only_members_get_one() -> None:
    """F-GRT-05, OBJ-08"""
    fleet = Fleet()
    fleet["project/vision"]["members"].pop()
    problem = fleet.only(GRANT)
    assert problem.code == "not_a_member"
    assert "ana" in problem.hint


@pytest.mark.parametrize("access", [["ana", "bo"], ["bo"]])
def test_nobody_gets_what_they_have(access: list[str]) -> None:
    fleet = Fleet()
    fleet["allocation/vision/train-a"]["access"] = access
    assert fleet.only(GRANT).code == "grant_redundant"


def test_keys_are_the_users_own() -> None:
    """OBJ-05: keys come from the person's own list, by their id."""
    fleet = Fleet()
    fleet[GRANT]["keys"] = ["desk", "lapdog"]
    problem = fleet.only(GRANT)
    assert problem.code == "dangling_reference"
    assert problem.source and problem.source.path == ("spec", "keys", "lapdog")
    assert "desk" in problem.hint


def test_it_ends_unless_the_policy_says_otherwise() -> None:
    fleet = Fleet()
    fleet[GRANT]["expiresAt"] = "none"
    assert fleet.only(GRANT).code == "grant_too_long"
    fleet["policy/fleet"]["grant"]["mayBeOpenEnded"] = True
    assert fleet.problems(GRANT) == []
    fleet[GRANT]["expiresAt"] = "2027-02-30T00:00:00Z"
    assert fleet.only(GRANT).code == "value_pattern"


@pytest.mark.parametrize(
    ("sku", "is_allowed"),
    [
        ({}, False),
        ({"rootAccess": True}, False),
        ({"shape": "baremetal"}, False),
        ({"shape": "baremetal", "rootAccess": True}, True),
        ({"isolation": ["vm"], "rootAccess": True}, True),
        ({"isolation": ["account", "vm"], "rootAccess": True}, False),
    ],
)
def test_root_is_for_whole_nodes(sku: dict[str, Any], is_allowed: bool) -> None:
    fleet = Fleet()
    fleet[GRANT]["privilege"] = "sudo"
    fleet["sku/h100-slice-1"].update(sku)
    codes = [problem.code for problem in fleet.problems(GRANT)]
    assert codes == ([] if is_allowed else ["sudo_needs_whole_node"])
    assert fleet.unsupported(GRANT) == "privilege sudo"


def test_sessions_end_with_their_key() -> None:
    """F-GRT-10: what is stated otherwise is refused, not promised and broken."""
    fleet = Fleet()
    assert fleet.unsupported(GRANT) == ""
    fleet[GRANT]["endSessions"] = False
    assert fleet.unsupported(GRANT) == "endSessions: false"


@pytest.mark.parametrize("network", ["10.0.0.0/33", "300.0.0.0/8", "::/129", ":::/8"])
def test_networks_exist(network: str) -> None:
    fleet = Fleet()
    fleet[GRANT]["options"]["from"] = [network]
    assert fleet.only(GRANT).code == "value_pattern"


def test_what_is_not_there_is_told_once() -> None:
    """A dangling reference is its own problem, and no reason for others."""
    fleet = Fleet()
    for ref in ("user/bo", "allocation/vision/train-a", "project/vision", "policy/fleet"):
        fleet.remove(ref)
    assert fleet.problems(GRANT) == []
