"""Which descriptors are believed: each rule in its order, each conflict, and what adopting does."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Counters, World
from reconciler.planner.rebuild.descriptors import FoundDescriptor, read_found, verify
from reconciler.planner.rebuild.trust import Authority, signed_states
from tests.planner.descriptors import sign, told
from tests.planner.fleet import STATE_ID, claim, desired, family, node, sku, world

ACCOUNT = {
    "isolation": "account",
    "root": "/",
    "address": "10.0.0.1",
    "identity": {"machineId": "m" * 32, "hostKeys": ["ssh-ed25519 AAAA"]},
}
FLEET = desired(
    [
        family(),
        node("gpu01", 4),
        node("gpu02", 4),
        node("acc01", 4, **ACCOUNT),
        sku("slice-1"),
        sku("root", 0, rootAccess=True),
    ]
)


def judge(
    texts: Mapping[str, Mapping[str, str]],
    adopt: Collection[str] = (),
    of: Desired = FLEET,
    state: World | None = None,
    key: bool = True,
) -> dict[str, FoundDescriptor]:
    authority = Authority(
        state_id=STATE_ID, sign=sign if key else None, desired=of, world=state or world(of)
    )
    return {one.place: one for one in verify(read_found(texts), authority, adopt)}


def test_a_signed_one_in_its_place_is_believed() -> None:
    """Rule 21."""
    (one,) = judge({"gpu01": {"a" * 10: told("a")}}).values()
    assert (one.taken, one.why, one.adopted) == (True, "", False)


@pytest.mark.parametrize(
    ("text", "where", "why", "adoptable"),
    [
        ("{", "gpu01", "unreadable", False),
        (told("b"), "gpu01", "its file is that of aaaaaaaaaa, and it says bbbbbbbbbb", False),
        (told("a"), "gpu02", "it was made for node gpu01", False),
        (told("a", "gpu09"), "gpu09", "node gpu09 is in no spec", False),
        (told("a", slot="s9"), "gpu01", "slot s9 is not in the spec of gpu01", False),
        (
            told("a", uid=20001, gid=20001),
            "gpu01",
            "it was not made for isolation directory",
            False,
        ),
        (told("a", "acc01"), "acc01", "it was not made for isolation account", False),
        (told("a", "acc01", uid=20001), "acc01", "it was not made for isolation account", False),
        (told("a").replace('"ana"', '"bo"'), "gpu01", "its signature is not ours", True),
        (told("a", stateId="other"), "gpu01", "it is of state other", True),
        (told("a", sku="root"), "gpu01", "a tenant had root on its host", True),
    ],
)
def test_why_not(text: str, where: str, why: str, adoptable: bool) -> None:
    """Rules 3 and 21: the first rule says it; some may be adopted, others by nobody."""
    texts = {where: {"a" * 10: text}}
    (one,) = judge(texts).values()
    assert (one.why, one.taken) == (why, False)
    (one,) = judge(texts, {one.place}).values()
    assert (one.taken, one.adopted, one.why) == (adoptable, adoptable, why)


def test_without_a_key_none_is() -> None:
    (one,) = judge({"gpu01": {"a" * 10: told("a")}}, key=False).values()
    assert (one.taken, one.why) == (False, "there is no key to check it with")
    assert signed_states(read_found({"gpu01": {"a" * 10: told("a")}}), None) == {}


def test_root_spoils_what_its_neighbours_say() -> None:
    """Rule 3: after a tenant had root, the host cannot prove anything."""
    texts = {
        "gpu01": {"a" * 10: told("a", sku="root"), "b" * 10: told("b", slot="s1")},
        "gpu02": {"c" * 10: told("c", "gpu02")},
    }
    found = judge(texts)
    assert [one.taken for one in found.values()] == [False, False, True]


ACC = {"uid": 20001, "gid": 20001}


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (told("b", slot="s0"), "slot s0"),
        (told("b", slot="s1", login="a-aaaa"), "login a-aaaa"),
        (told("b", slot="s1", shape="baremetal"), "node gpu01"),
    ],
)
def test_of_two_that_claim_the_same_none_is(second: str, what: str) -> None:
    """F-PLC-01: unless one of them is adopted."""
    texts = {"gpu01": {"a" * 10: told("a"), "b" * 10: second}}
    a, b = (f"gpu01/{letter * 10}" for letter in "ab")
    found = judge(texts)
    assert {one.why for one in found.values()} == {
        f"{a} has the same {what}",
        f"{b} has the same {what}",
    }
    found = judge(texts, {a})
    assert (found[a].taken, found[b].taken) == (True, False)
    assert not any(one.taken for one in judge(texts, {a, b}).values())


def test_one_ref_on_two_hosts_and_one_account_twice() -> None:
    same_ref = {"ref": "allocation/vision/a", "name": "a"}
    texts = {
        "gpu01": {"a" * 10: told("a")},
        "gpu02": {"b" * 10: told("b", "gpu02", login="a-bbbb", **same_ref)},
    }
    assert {one.why.split(" has ")[1] for one in judge(texts).values()} == {
        "the same ref allocation/vision/a"
    }
    accounts = {
        "acc01": {
            "a" * 10: told("a", "acc01", **ACC),
            "b" * 10: told("b", "acc01", "s1", uid=20001, gid=20001),
            "c" * 10: told("c", "acc01", "s2", uid=20003, gid=20001),
        }
    }
    whys = [one.why for one in judge(accounts).values()]
    assert [why.partition("the same ")[2] for why in whys] == ["uid 20001", "uid 20001", ""]


def test_a_project_has_one_gid_and_a_gid_one_project() -> None:
    """Rule 15: whoever shares a gid shares files."""
    other = {"ref": "allocation/nlp/b", "project": "nlp"}
    texts = {
        "acc01": {
            "a" * 10: told("a", "acc01", **ACC),
            "b" * 10: told("b", "acc01", "s1", uid=20002, gid=20001, **other),
        }
    }
    assert not any(one.taken for one in judge(texts).values())
    texts["acc01"]["b" * 10] = told("b", "acc01", "s1", uid=20002, gid=20002)
    assert not any(one.taken for one in judge(texts).values())
    texts["acc01"]["b" * 10] = told("b", "acc01", "s1", uid=20002, gid=20001)
    assert all(one.taken for one in judge(texts).values())


def test_what_the_state_knows_stays() -> None:
    """A host never talks anybody out of what is claimed; what it knows already is no news."""
    held = claim("x", "gpu01", "s0")
    counters = Counters(login_of={"x-id": "b-bbbb"}, logins=frozenset({"b-bbbb"}))
    state = world(FLEET, claims=(held,), counters=counters)
    texts = {"gpu01": {"a" * 10: told("a"), "b" * 10: told("b", slot="s1")}}
    for adopt in ((), ("gpu01/" + "a" * 10, "gpu01/" + "b" * 10)):
        found = judge(texts, adopt, state=state)
        assert [one.why for one in found.values()] == [
            "this state has the same slot s0",
            "this state has the same login b-bbbb",
        ]
    known = world(FLEET, claims=(claim("a", "gpu01", "s0", allocation_id="a" * 10),))
    assert judge({"gpu01": {"a" * 10: told("a")}}, state=known) == {}


def test_the_states_that_were_signed() -> None:
    """A forged one names any state it likes."""
    texts = {
        "gpu01": {"a" * 10: told("a"), "b" * 10: told("b", slot="s1", stateId="other")},
        "gpu02": {"c" * 10: told("c", "gpu02").replace(STATE_ID, "forged")},
    }
    found = read_found(texts)
    assert set(signed_states(found, sign)) == {STATE_ID, "other"}
