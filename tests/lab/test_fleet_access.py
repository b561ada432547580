"""Who gets in where: people with several keys, people who leave, and hosts that are told late."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import place
from tests.lab.colony import ALLOCATIONS, Colony, allocation, documents, person, project
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

GRANT = paper.grant("dana-on-gpt", "gpt", "dana", "nlp", expiresAt="none")
PRIVATE = "~/.ssh/authorized_keys"


@pytest.fixture(autouse=True)
def as_it_was(colony: Colony) -> Iterator[None]:
    """Whatever a test made of people and access, the next one finds it as it was."""
    yield
    grants = [GRANT] if colony.file(GRANT).exists() else []
    back = colony.change(*documents(), *map(allocation, ALLOCATIONS), but=grants)
    assert back.code == 0, back.document["problems"]


def given(*names: str) -> set[tuple[str, str]]:
    """The doors of these people as they are otherwise."""
    all_of_them = ALLOCATIONS.items()
    return {(ref, name) for ref, (_, _, people) in all_of_them for name in people if name in names}


def test_a_suspension_closes_every_door_and_no_reference_breaks(colony: Colony) -> None:
    """Rule 9: on every host with the next apply; their sessions end, and nobody else's."""
    with (
        colony.session("vision/train", "cem") as his,
        colony.session("vision/train", "ana") as hers,
    ):
        done = colony.change(person("cem", state="suspended"))
        assert done.code == 0, done.document["problems"]
        his.wait(10)
        assert hers.poll() is None
    valid = colony.gpuaas("validate")
    assert (valid.code, valid.problems) == (0, [])
    assert colony.opened("cem", "ana") == given("ana")
    colony.rests()


def test_whoever_left_the_project_is_out_before_its_documents_are_mended(colony: Colony) -> None:
    """ACC-10, F-GRT-02: two allocations still name her, and the exit code says so."""
    with colony.session("nlp/bert", "dana") as hers, colony.session("nlp/bert", "bo") as his:
        done = colony.change(project("nlp", "bo"))
        assert (done.code, set(done.problems)) == (1, {"not_a_member"})
        hers.wait(10)
        assert his.poll() is None
    assert colony.opened("dana", "bo") == given("bo")
    mended = colony.change(
        allocation("nlp/bert", access=["bo"]),
        allocation("nlp/tok", owner="bo", access=["bo"]),
    )
    assert mended.code == 0, mended.document["problems"]
    assert colony.opened("dana", "bo") == given("bo") | {("nlp/tok", "bo")}


def test_three_people_with_two_keys_each_and_a_key_that_is_nobodys_business(colony: Colony) -> None:
    """F-GRT-03, F-GRT-07: six keys work, whatever was there; a tenant's own one neither works nor
    is touched, and the plan and the review of access (ACC-09) tell of it.
    """
    stray = place.public(place.key("stray"))
    planted = colony.enter("vision/eval", "cem", f"mkdir -m 700 ~/.ssh; cat > {PRIVATE}", stray)
    assert planted.returncode == 0, planted.stderr
    three = ("ana", "cem", "dana")
    done = colony.change(
        *(person(name, "desk") for name in three),
        project("vision", *three),
        allocation("vision/eval", access=list(three)),
    )
    assert done.code == 0, done.document["problems"]
    keys = {f"{name}{key}" for name in three for key in ("", "-desk")}
    opened = colony.opened(*keys, "stray")
    assert {key for ref, key in opened if ref == "vision/eval"} == keys
    assert "stray" not in {key for _, key in opened}
    again = colony.plan("--refresh", "--detailed-exitcode")
    assert (again.code, again.actions) == (4, {}), "nothing is to be done, something is reported"
    assert colony.enter("vision/eval", "ana", f"cat {PRIVATE}").stdout == stray
    (told,) = colony.gpuaas("grant", "list").document["result"]["strays"]
    assert told["ref"] == "allocation/vision/eval"
    assert told["key"].endswith(PRIVATE)
    assert f"{PRIVATE} opens nothing" in colony.shell("plan").stdout
    assert colony.enter("vision/eval", "cem", "rm -r ~/.ssh").returncode == 0


def test_a_grant_opens_one_door_and_its_end_shuts_it_for_every_key(colony: Colony) -> None:
    """F-GRT-02: a key of hers is dropped in the commit that ends the grant; then the whole person
    goes, and no key of hers remains anywhere.
    """
    given = colony.change(person("dana", "desk"), GRANT)
    assert given.code == 0, given.document["problems"]
    hers = {("nlp/bert", "dana"), ("nlp/tok", "dana"), ("nlp/gpt", "dana")}
    hers |= {(ref, "dana-desk") for ref, _ in hers}
    assert colony.opened("dana", "dana-desk") == hers
    with colony.session("nlp/gpt", "dana-desk") as session, colony.session("nlp/gpt", "bo") as his:
        ended = colony.change(person("dana"), but=[GRANT])
        assert ended.code == 0, ended.document["problems"]
        session.wait(10)
        assert his.poll() is None
    assert colony.opened("dana", "dana-desk") == {("nlp/bert", "dana"), ("nlp/tok", "dana")}
    gone = colony.change(but=[person("dana")])
    assert (gone.code, set(gone.problems)) == (1, {"dangling_reference"})
    assert colony.opened("dana", "dana-desk") == set()
    key = place.public(place.key("dana")).split()[1]
    for host in colony.machines.values():
        assert host.run("grep", "-rlF", key, "/etc", "/home", check=False).stdout == ""


def test_a_host_that_was_cut_off_is_told_first_when_it_is_back(colony: Colony) -> None:
    """F-GRT-02, rule 9: what it has missed is shown as not yet removed until it is served."""
    c3 = colony.machines["c3"]
    colony.let_go("c3")
    c3.cut()
    try:
        done = colony.change(person("cem", state="suspended"))
        assert (done.code, set(done.problems)) == (1, {"host_unreachable"})
        told = colony.shell("status").stdout
        assert "revocation of cem on c3 pending" in told
        (pending,) = colony.gpuaas("grant", "list").document["result"]["pending"]
        assert (pending["node"], pending["people"]) == ("c3", ["cem"])
        assert "1 revocation waits (cem)" in colony.shell("plan").stdout
    finally:
        c3.heal()
    assert colony.opened("cem") == {("vision/desk", "cem")}, "c1 was told, c3 was not"
    back = colony.change(allocation("nlp/tok", access=["dana", "bo"]))
    assert back.code == 0, back.document["problems"]
    done_on_c3 = [
        (outcome["step"]["ref"], outcome["step"]["verb"])
        for outcome in back.document["result"]["outcomes"]
        if outcome["step"]["node"] == "c3"
    ]
    taken = done_on_c3.index(("allocation/vision/desk", "access.sync"))
    assert taken < done_on_c3.index(("allocation/nlp/tok", "allocation.provide"))
    assert colony.opened("cem") == set()
    assert "revocation" not in colony.shell("status").stdout
