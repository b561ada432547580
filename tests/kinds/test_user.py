"""User: sound keys, and nothing that tells people apart belongs to two of them."""

from __future__ import annotations

import pytest

from reconciler.kinds.registry import KINDS
from tests.kinds.sample import Fleet

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM4wfMrcPoBbv1BJQ/IgmeaJqUd0abP1RSdE7EXqoz4"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAABG5vbmU="


def test_a_good_user_has_no_problem() -> None:
    fleet = Fleet()
    assert fleet.problems("user/ana") == fleet.problems("user/bo") == []
    assert fleet.unsupported("user/ana") == ""


def test_one_person_one_spelling() -> None:
    """Order of keyed lists and sets, spaces around a key and zones of a time mean nothing."""
    spec = {
        "emails": ["b@x.example", "a@x.example"],
        "keys": [
            {"id": "z", "publicKey": KEY, "expiresAt": "2027-01-01T02:00:00+02:00"},
            {"id": "a", "publicKey": f" {KEY} "},
        ],
    }
    user = KINDS["user"].parse(spec, "ana")
    assert user.emails == ("a@x.example", "b@x.example")
    assert [key.id for key in user.keys] == ["a", "z"]
    assert user.keys[0].public_key == KEY
    assert user.keys[1].expires_at == "2027-01-01T00:00:00Z"
    assert (user.display_name, user.state) == ("ana", "active")


def test_one_key_has_one_owner() -> None:
    """F-GRT-09: the same key with two people is refused at both, comment or not."""
    fleet = Fleet()
    fleet["user/bo"]["keys"][0]["publicKey"] = f"{KEY} bo@desk"
    for ref, other in (("user/ana", "bo/desk"), ("user/bo", "ana/laptop")):
        problem = fleet.only(ref)
        assert problem.code == "key_shared"
        assert other in problem.message
        assert problem.source and problem.source.path[-1] == "publicKey"


def test_one_key_stands_once() -> None:
    """F-GRT-09: two ids for one key of one person hide which of them was taken away."""
    fleet = Fleet()
    fleet["user/ana"]["keys"].append({"id": "again", "publicKey": KEY})
    assert [problem.code for problem in fleet.problems("user/ana")] == ["key_shared"] * 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (PRIVATE, "private_key_in_spec"),
        (f'command="x" {KEY}', "key_invalid"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACB", "key_weak"),
        (KEY[:-9], "key_invalid"),
    ],
)
def test_unsound_keys_are_refused_and_never_repeated(text: str, code: str) -> None:
    """OBJ-05, SEC-06, F-GRT-01: a private key is refused, and its text stands in no message."""
    fleet = Fleet()
    fleet["user/ana"]["keys"][0]["publicKey"] = text
    problem = fleet.only("user/ana")
    assert problem.code == code
    assert problem.source and problem.source.path == ("spec", "keys", "laptop", "publicKey")
    assert text.split()[-1] not in problem.message + problem.hint


def test_people_are_told_apart() -> None:
    fleet = Fleet()
    fleet["user/bo"]["emails"] = ["Ana@corp.example"]
    assert fleet.only("user/ana").code == fleet.only("user/bo").code == "email_taken"
    fleet = Fleet()
    fleet["user/bo"]["osLogins"] = ["olga"]
    assert fleet.only("user/bo").code == fleet.only("user/olga").code == "os_login_taken"


def test_times_are_on_the_calendar() -> None:
    fleet = Fleet()
    fleet["user/bo"]["keys"][0]["expiresAt"] = "2027-02-30T00:00:00Z"
    assert fleet.only("user/bo").code == "value_pattern"
