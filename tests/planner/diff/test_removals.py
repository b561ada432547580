"""Absence: what git does not say is gone stays, and so do many people who vanish at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.cli.exit_codes import Exit, of_plan
from reconciler.model.plan.plan import Plan
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.spec.desired import Absence, AuthorDoubt, Desired, Origin
from tests.planner.fleet import allocation, base_fleet, desired, grant, policy, project, user
from tests.planner.walk import make_plan, settled

NAMES = tuple(f"p{number:02}" for number in range(12))
ALL = ("ana", *NAMES)
BASE = [one for one in base_fleet() if one["metadata"]["name"] not in ("vision", "fleet")]
FLEET = [
    *BASE,
    policy(),
    project("vision", *ALL),
    *(user(name) for name in NAMES),
    allocation("a", access=["ana", *NAMES[:8]]),
    *(grant(f"g-{name}", "a", name) for name in NAMES[8:]),
]
ADMITTED = {"revocations_guard"}


def without(*names: str) -> list[dict[str, Any]]:
    return [one for one in FLEET if one["metadata"]["name"] not in names]


def instead(*documents: dict[str, Any]) -> list[dict[str, Any]]:
    names = [one["metadata"]["name"] for one in documents]
    return [*without(*names), *documents]


def keyless(name: str) -> dict[str, Any]:
    one = user(name)
    return {**one, "spec": {**one["spec"], "keys": []}}


def codes(made: Plan) -> dict[str, str]:
    return {str(c.ref): c.problem.code for c in made.changes if c.problem}


def opens(made: Plan) -> int:
    """How many steps take access away."""
    return sum(bool(step.revokes) for step in made.steps)


def nobody(files: Mapping[Ref, str], gone: Collection[Ref]) -> Mapping[Ref, Origin]:
    return dict.fromkeys(files, Origin())


@pytest.mark.parametrize(
    "then",
    [
        instead(project("vision", "ana")),
        instead(allocation("a", access=["ana"])),
        without(*(f"g-{name}" for name in NAMES[8:]), *NAMES[8:10]),
        instead(project("vision", "ana", tenant="acme")),
        instead(*(keyless(name) for name in NAMES)),
    ],
    ids=["members", "access", "grants and users", "beside what is refused", "all keys"],
)
def test_many_who_vanish_keep_their_keys(then: list[dict[str, Any]]) -> None:
    """F-REAL-02: of every sort, held and told."""
    before = settled(instead(policy(guard={"maxRemovals": 3, "maxRemovalPercent": 10})))
    wanted = [*then, policy(guard={"maxRemovals": 3, "maxRemovalPercent": 10})]
    wanted = [one for one in wanted if one["kind"] != "Policy"] + wanted[-1:]
    made = make_plan(desired(wanted), before)
    assert set(codes(made).values()) == ADMITTED
    assert opens(made) == 0
    assert of_plan(made, detailed=False) is Exit.HELD


def test_vanished_users_keep_their_keys_though_others_name_them() -> None:
    """F-REAL-02: their documents are gone, and those that name them have errors so."""
    frozen = {Ref("project", "", "vision"), Ref("allocation", "vision", "a")}
    frozen |= {Ref("grant", "vision", f"g-{name}") for name in NAMES[8:]}
    names = {ref.name for ref in frozen}
    wanted = [one for one in FLEET if one["metadata"]["name"] not in {*names, *NAMES}]
    made = make_plan(desired(wanted, frozen=frozenset(frozen)), settled(FLEET))
    told = codes(made)
    assert {told[f"user/{name}"] for name in NAMES} == ADMITTED
    assert opens(made) == 0


def test_one_person_goes_wherever_he_is_named() -> None:
    """F-REAL-02: a single removal acts at once, though it is written in many places."""
    allocations = [allocation(f"a{n}", access=["ana", "p00"]) for n in range(7)]
    grants = [grant(f"h{n}", f"a{n}", "p01") for n in range(7)]
    before = [*FLEET, *allocations, *grants]
    gone = [one for one in before if one["metadata"]["name"] not in ("p00", "vision", "a")]
    after = [
        *(one for one in gone if one["kind"] != "Allocation"),
        project("vision", "ana", *NAMES[1:]),
        allocation("a", access=["ana", *NAMES[1:8]]),
        *(allocation(f"a{n}", access=["ana"]) for n in range(7)),
    ]
    made = make_plan(desired(after), settled(before))
    assert not codes(made)
    assert opens(made) == 8


def test_words_are_never_held() -> None:
    """F-REAL-02: `state: suspended` for everybody at once."""
    after = instead(*(user(name, state="suspended") for name in NAMES))
    made = make_plan(desired(after), settled(FLEET))
    assert not codes(made)
    assert opens(made) == 1


def in_git(documents: list[dict[str, Any]], **changes: Any) -> Desired:
    return replace(desired(documents), knows=True, **changes)


GONE = ("a", *(f"g-{name}" for name in NAMES[8:]))


def test_no_commit_no_removal() -> None:
    """F-REAL-01: what was never committed, or is on another branch, is held; named, it goes."""
    wanted, before = in_git(without("a", "g-p08")), settled(FLEET)
    made = make_plan(wanted, before, origins=nobody)
    refs = {"allocation/vision/a", "grant/vision/g-p08"}
    assert codes(made) == dict.fromkeys(refs, "removal_uncommitted")
    assert (made.steps, of_plan(made, detailed=False)) == ((), Exit.HELD)
    assert not any(change.origin.commit for change in made.changes)
    one = make_plan(wanted, before, origins=nobody, uncommitted=("allocation/vision/a",))
    assert codes(one) == {"grant/vision/g-p08": "removal_uncommitted"}
    assert not codes(make_plan(wanted, before, origins=nobody, uncommitted=("all",)))


def test_what_the_commit_still_has_is_held_whatever_has_begun() -> None:
    """F-REAL-01: a commit that is named for its file is no reason."""
    ref = parse_ref("allocation/vision/a")
    assert ref is not None
    wanted = in_git(without("a"), absent={ref: Absence(file="specs/a.yaml")})
    made = make_plan(wanted, settled(FLEET))
    assert codes(made)["allocation/vision/a"] == "removal_uncommitted"


@pytest.mark.parametrize("doubt", list(AuthorDoubt))
def test_unknown_history_releases_nothing(doubt: AuthorDoubt) -> None:
    """F-REAL-01, F-REAL-17"""

    def unknown(files: Mapping[Ref, str], gone: Collection[Ref]) -> Mapping[Ref, Origin]:
        return dict.fromkeys(files, Origin(doubt=doubt))

    made = make_plan(in_git(without("a", *GONE)), settled(FLEET), origins=unknown)
    assert set(codes(made).values()) == {doubt.value}
    assert not made.steps
    given = make_plan(in_git(FLEET), settled(without("g-p08")), origins=unknown)
    assert codes(given)["grant/vision/g-p08"] == doubt.value


def test_a_silent_git_releases_nothing() -> None:
    """F-REAL-01: unknown is not absent, for people either."""
    made = make_plan(replace(desired(without("a", *GONE)), blind="git is gone"), settled(FLEET))
    assert set(codes(made).values()) == {"no_commit"}
    assert not made.steps
