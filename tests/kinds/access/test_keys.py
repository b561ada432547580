"""Who may log in to an allocation at one moment, and by which lines."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.kinds.access.doors import doors
from reconciler.kinds.access.keys import KeyLine, key_lines, next_change
from reconciler.kinds.access.leave import DoorState
from reconciler.model.ref import Ref
from tests.fleets import public_key
from tests.planner.fleet import NOW, allocation, desired, document, grant, policy, project, user

TRAIN = Ref("allocation", "vision", "train")
END = datetime(2026, 12, 20, tzinfo=UTC)


def lines(documents: Iterable[dict[str, Any]], now: datetime = NOW) -> tuple[KeyLine, ...]:
    wanted = desired([policy(), *documents])
    return key_lines(wanted.resources[TRAIN], wanted, now)


def whose(documents: Iterable[dict[str, Any]], now: datetime = NOW) -> list[str]:
    return [f"{line.user}/{line.key_id}" for line in lines(documents, now)]


def team(*extra: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    """Ana owns `train`; bo is a member without access."""
    people = [user("ana", "laptop", "desk"), user("bo", "desk", "travel")]
    return [project("vision", "ana", "bo"), *people, allocation("train", **changes), *extra]


def test_the_owner_has_access_with_all_keys_and_nobody_else() -> None:
    """LCH-01: compute, access, allocate; access defaults to the owner."""
    assert whose(team()) == ["ana/desk", "ana/laptop"]


def test_keys_alone_open_nothing_and_a_grant_without_keys_opens_nothing() -> None:
    """ACC-05: personal key storage is not a grant; removing the keys keeps the grant."""
    assert "bo" not in {line.user for line in lines(team())}
    bare = [one for one in team(grant("help", "train", "bo")) if one["metadata"]["name"] != "bo"]
    nobody = document("User", "bo", {"emails": ["bo@corp.example"]})
    assert whose([*bare, nobody]) == ["ana/desk", "ana/laptop"]


def test_a_line_is_rebuilt_and_names_whose_key_it_is() -> None:
    """F-GRT-01: nothing of the comment that somebody wrote reaches the host."""
    line = lines(team())[1]
    kind, blob, _ = public_key("ana-laptop").split(" ")
    assert line.line == f"{kind} {blob} ana/laptop"
    assert line.cause == TRAIN
    assert line.fingerprint.startswith("SHA256:")


def test_every_key_of_every_member_is_there_and_a_second_look_finds_the_same() -> None:
    """F-GRT-03: three members with two keys each make six lines, in one order."""
    people = [user(name, "one", "two") for name in ("cem", "ana", "bo")]
    shared = [*people, project("vision", "ana", "bo", "cem")]
    documents = [*shared, allocation("train", access=["cem", "bo", "ana"])]
    found = whose(documents)
    assert found == [f"{name}/{key}" for name in ("ana", "bo", "cem") for key in ("one", "two")]
    assert whose(reversed(documents)) == found


def test_swapped_keys_swap_lines() -> None:
    """ACC-06: the new key is in, the old one is out."""
    before = [one for one in team() if one["metadata"]["name"] != "ana"]
    assert whose([*before, user("ana", "new")]) == ["ana/new"]


def test_a_grant_lets_in_with_the_keys_it_names() -> None:
    found = lines(team(grant("help", "train", "bo", keys=["travel"])))
    assert [(line.user, line.key_id) for line in found][-1] == ("bo", "travel")
    assert found[-1].cause == Ref("grant", "vision", "help")
    assert len(found) == 3


@pytest.mark.parametrize(
    ("now", "open_"),
    [
        (END - timedelta(seconds=1), True),
        (END, False),
        (END + timedelta(days=1), False),
    ],
)
def test_a_grant_ends_at_its_end(now: datetime, open_: bool) -> None:
    """A Grant past its end is not in force; the moment itself is past."""
    assert ("bo/desk" in whose(team(grant("help", "train", "bo")), now)) is open_


@pytest.mark.parametrize(
    "changes",
    [
        {"expiresAt": "2026-02-30T00:00:00Z"},
        {"expiresAt": "someday"},
        {"privilege": "sudo"},
        {"options": {"from": ["not-a-network"]}},
        {"options": {"from": ['fe80::1%",command="/bin/sh/128']}},
        {"options": {"from": ["10.0.0.0/8", '10.0.0.1",command="x']}},
        {"keys": ["no-such-key"]},
    ],
)
def test_a_grant_that_cannot_be_understood_lets_nobody_in(changes: dict[str, Any]) -> None:
    """F-GRT-01: unsound ends, networks and privileges fail closed, and carry no orders."""
    assert whose(team(grant("help", "train", "bo", **changes))) == ["ana/desk", "ana/laptop"]


def test_an_open_ended_grant_stays() -> None:
    documents = team(grant("help", "train", "bo", expiresAt="none"))
    assert "bo/desk" in whose(documents, NOW + timedelta(days=10_000))


def test_options_become_options_of_sshd() -> None:
    options = {"from": ["192.0.2.7", "10.1.2.3/8"], "forwarding": False}
    found = lines(team(grant("help", "train", "bo", keys=["desk"], options=options)))[-1]
    words, kind, *_ = found.line.split(" ")
    assert words == (
        'from="10.0.0.0/8,192.0.2.7/32",no-agent-forwarding,no-port-forwarding,no-X11-forwarding'
    )
    assert kind == "ssh-ed25519"


@pytest.mark.parametrize("way", ["removed", "suspended", "gone"])
def test_leaving_ends_every_way_in(way: str) -> None:
    """ACC-10: neither access nor a grant outlives membership; F-GRT-02: nor does any key."""
    documents = team(grant("help", "train", "bo"), access=["ana", "bo"])
    assert "bo/desk" in whose(documents)
    kept = [one for one in documents if one["metadata"]["name"] not in ("bo", "vision")]
    bo = {
        "removed": [user("bo", "desk"), project("vision", "ana")],
        "suspended": [user("bo", "desk", state="suspended"), project("vision", "ana", "bo")],
        "gone": [project("vision", "ana", "bo")],
    }
    assert whose([*kept, *bo[way]]) == ["ana/desk", "ana/laptop"]


def test_a_project_that_is_gone_lets_nobody_in() -> None:
    assert whose(one for one in team() if one["kind"] != "Project") == []


def test_a_shared_key_stays_as_long_as_one_of_its_owners_may_log_in() -> None:
    """F-GRT-09: A and B share K; when A is revoked, the line of B stays and says so."""
    shared = {"id": "k", "publicKey": public_key("shared")}
    both = [
        document("User", name, {"emails": [f"{name}@corp.example"], "keys": [shared]})
        for name in ("ana", "bo")
    ]
    members = project("vision", "ana", "bo")
    assert whose([*both, members, allocation("train", access=["ana", "bo"])]) == ["ana/k", "bo/k"]
    assert whose([*both, members, allocation("train", access=["bo"])]) == ["bo/k"]


def test_grants_on_other_allocations_and_in_other_projects_do_not_count() -> None:
    elsewhere = [
        allocation("other"),
        grant("on-other", "other", "bo"),
        project("nlp", "ana", "bo"),
        allocation("train", project="nlp"),
        grant("same-name", "train", "bo", project="nlp"),
    ]
    assert whose(team(*elsewhere)) == ["ana/desk", "ana/laptop"]


def test_two_grants_of_one_person_give_a_line_once() -> None:
    documents = team(grant("one", "train", "bo"), grant("two", "train", "bo", keys=["desk"]))
    found = lines(documents)
    assert [line.key_id for line in found if line.user == "bo"] == ["desk", "travel"]
    assert {str(line.cause) for line in found if line.user == "bo"} == {"grant/vision/one"}


def expiring(end: str) -> dict[str, Any]:
    key = {"id": "temp", "publicKey": public_key("temp"), "expiresAt": end}
    return document("User", "ana", {"emails": ["ana@corp.example"], "keys": [key]})


@pytest.mark.parametrize(
    ("end", "open_"), [("2026-12-01T12:00:01Z", True), ("2026-12-01T12:00:00Z", False)]
)
def test_a_key_ends_at_its_end(end: str, open_: bool) -> None:
    documents = [project("vision", "ana"), expiring(end), allocation("train")]
    assert bool(lines(documents)) is open_


def test_the_next_change_is_the_first_end_that_lies_ahead() -> None:
    documents = [
        project("vision", "ana", "bo"),
        expiring("2026-12-24T00:00:00+02:00"),
        user("bo", "desk"),
        allocation("train"),
        grant("over", "train", "bo", expiresAt="2026-11-01T00:00:00Z"),
        grant("open", "train", "bo", expiresAt="none"),
    ]
    assert next_change(desired(documents), NOW) == datetime(2026, 12, 23, 22, tzinfo=UTC)
    later = grant("later", "train", "bo")
    assert next_change(desired([*documents, later]), NOW) == END
    assert next_change(desired([later]), END) is None


def states(*extra: dict[str, Any], now: datetime = NOW, **changes: Any) -> dict[str, str]:
    """User → state, of every reason to be let in to `train`."""
    wanted = desired([policy(), *team(*extra, **changes)])
    found = doors(wanted.resources[TRAIN], wanted, now)
    keyed = {one.user: one for one in found if one.keys}
    assert keyed.keys() == {one.user for one in found if one.state is DoorState.ACTIVE}
    assert keyed.keys() == {one.user for one in key_lines(wanted.resources[TRAIN], wanted, now)}
    return {one.user: one.state.value for one in found}


@pytest.mark.parametrize(
    ("extra", "state"),
    [
        ([], "active"),
        ([user("bo", "desk", state="suspended")], "suspended"),
        ([document("User", "bo", {"emails": ["bo@corp.example"]})], "no_key"),
        ([project("vision", "ana")], "not_a_member"),
    ],
)
def test_a_door_says_why_it_is_shut(extra: list[dict[str, Any]], state: str) -> None:
    """ACC-05, ACC-09: the grant stays on the books whatever keeps it from letting in, and says so.

    ACC-04: only the person's own keys open it; without any it waits for one, and nobody else may
    give one.
    """
    assert states(grant("help", "train", "bo"), *extra) == {"ana": "active", "bo": state}


def test_a_door_says_who_why_and_until_when() -> None:
    """ACC-09"""
    wanted = desired([policy(), *team(grant("help", "train", "bo", keys=["travel"]))])
    ana, bo = doors(wanted.resources[TRAIN], wanted, NOW)
    assert (ana.cause, ana.until, ana.reason) == (TRAIN, "", "")
    assert [key.split(" ")[0] for key in ana.keys] == ["desk", "laptop"]
    assert (bo.cause, bo.reason) == (Ref("grant", "vision", "help"), "helps")
    assert bo.until == "2026-12-20T00:00:00Z"
    (key,) = bo.keys
    assert key.startswith("travel SHA256:")


def test_doors_shut_by_time_by_privilege_and_for_who_is_gone() -> None:
    assert states(grant("help", "train", "bo"), now=END)["bo"] == "expired"
    assert states(grant("help", "train", "bo", privilege="sudo"))["bo"] == "not_supported"
    assert states(access=["ana", "dana"])["dana"] == "unknown_user"
