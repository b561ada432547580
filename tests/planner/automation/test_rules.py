"""What goes alone in a plan that nobody is asked about: by risk, project, kind, hour and freeze."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Plan, Risk
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from tests.planner.fleet import NOW, allocation, base_fleet, desired, grant, node, policy, sku, user
from tests.planner.walk import line, make_plan, settled, told

BEFORE = [
    *base_fleet(),
    *(allocation(name) for name in ("keep", "stay")),
    allocation("train", access=["ana", "bo"]),
    allocation("talk", project="nlp"),
    grant("bo-on-keep", "keep", "bo"),
]
TRAIN = "allocation/vision/train"
EVERYTHING = {
    TRAIN: "release",
    "allocation/nlp/talk": "release",
    "allocation/vision/stay": "restart",
    "allocation/vision/new": "create",
    "user/cem": "create",
}


def after(**automation: Any) -> list[dict[str, Any]]:
    """One release a project, a restart, a new allocation, and a new person."""
    kept = [
        one for one in BEFORE if one["metadata"]["name"] not in ("train", "talk", "stay", "fleet")
    ]
    restarted = allocation("stay", restart={"generation": 1})
    return [
        policy(automation=automation),
        *kept,
        restarted,
        allocation("new"),
        user("cem"),
    ]


def alone(documents: list[dict[str, Any]], world: World | None = None, **changes: Any) -> Plan:
    changes = {"unattended": True, **changes}
    return make_plan(desired(documents), world or settled(BEFORE), **changes)


def held(made: Plan) -> set[str]:
    """What waits for somebody, by ref."""
    return {str(c.ref) for c in made.changes if c.problem and c.problem.code == "held_by_policy"}


RELEASES = {TRAIN, "allocation/nlp/talk"}
RESTART = {"allocation/vision/stay"}
COMES = {"allocation/vision/new", "user/cem"}
OF_POLICY = {"policy/fleet"}


@pytest.mark.parametrize(
    ("automation", "expected"),
    [
        ({}, RELEASES | RESTART),
        ({"allow": "safe"}, RELEASES | RESTART),
        ({"allow": "interrupts"}, RELEASES),
        ({"allow": "destroys"}, set()),
        ({"allow": "none"}, RELEASES | RESTART | COMES | OF_POLICY),
        # The first rule that fits counts, and says more or less than what counts elsewhere.
        ({"rules": [{"allow": "destroys", "projects": ["vision"]}]}, {"allocation/nlp/talk"}),
        (
            {"rules": [{"allow": "safe", "projects": ["vision"]}, {"allow": "destroys"}]},
            {TRAIN} | RESTART,
        ),
        ({"rules": [{"allow": "none", "kinds": ["user"]}]}, RELEASES | RESTART | {"user/cem"}),
        (
            {
                "allow": "destroys",
                "rules": [{"allow": "safe", "kinds": ["allocation"], "projects": ["nlp"]}],
            },
            {"allocation/nlp/talk"},
        ),
    ],
)
def test_what_goes_alone_is_a_matter_of_policy(
    automation: Mapping[str, Any], expected: set[str]
) -> None:
    made = alone(after(**automation))
    assert held(made) == expected
    # Somebody who is asked may do all of it.
    assert held(alone(after(**automation), unattended=False)) == set()
    assert made.active or expected == RELEASES | RESTART | COMES | OF_POLICY


def test_what_is_held_says_by_what_and_what_would_let_it_go() -> None:
    night = {
        "name": "night",
        "from": "02:00",
        "to": "04:00",
        "timeZone": "Europe/Berlin",
        "allow": "destroys",
    }
    change = line(alone(after(windows=[night])), TRAIN)
    assert change.problem and change.action == "release"
    expected = "it destroys, and no more than safe goes alone here (automation.allow of the Policy)"
    assert change.problem.message == expected
    assert "in window night, from 2026-12-02T01:00:00Z on" in change.problem.hint
    rules = [{"allow": "none", "kinds": ["allocation"]}]
    change = line(alone(after(rules=rules, windows=[night])), "allocation/vision/new")
    assert change.problem
    expected = "it is safe, and nothing goes alone here (rule 1 of automation in the Policy)"
    assert change.problem.message == expected
    assert "no window" in str(line(alone(after()), TRAIN).problem)


@pytest.mark.parametrize(
    ("at", "is_held"),
    [
        # 28 March 2027: the clock of Berlin goes from 02:00 to 03:00 at 01:00 UTC.
        ("2027-03-28T00:29", True),
        ("2027-03-28T00:30", False),
        ("2027-03-28T00:59", False),
        ("2027-03-28T01:00", True),
        ("2027-03-28T01:15", True),
        # 31 October 2027: it goes from 03:00 back to 02:00 at 01:00 UTC.
        ("2027-10-30T23:29", True),
        ("2027-10-30T23:30", False),
        ("2027-10-31T00:29", False),
        ("2027-10-31T00:30", True),
        ("2027-10-31T01:00", False),
        ("2027-10-31T01:30", True),
    ],
)
def test_a_window_lets_more_go_on_both_sides_of_a_switch_of_the_clock(
    at: str, is_held: bool
) -> None:
    window = {"from": "01:30", "to": "02:30", "timeZone": "Europe/Berlin", "allow": "destroys"}
    automation = {"windows": [{"name": "night", "projects": ["vision"], **window}]}
    now = datetime.fromisoformat(at).replace(tzinfo=UTC)
    made = alone(after(**automation), now=now)
    codes = {str(c.ref): c.problem.code for c in made.changes if c.problem}
    assert (codes.get(TRAIN) == "held_by_policy") is is_held
    assert codes["allocation/nlp/talk"] == "held_by_policy"


def test_the_next_moment_is_when_a_window_turns() -> None:
    window = {"from": "01:30", "to": "02:30", "timeZone": "UTC", "allow": "destroys"}
    documents = after(windows=[{"name": "night", **window}])
    assert alone(documents).next_moment == "2026-12-02T01:30:00Z"
    inside = alone(documents, now=NOW + timedelta(hours=14))
    assert inside.next_moment == "2026-12-02T02:30:00Z"
    assert alone(documents, unattended=False).next_moment == "2026-12-20T00:00:00Z"


def frozen(**changes: Any) -> dict[str, Any]:
    freeze = {
        "name": "year-end",
        "from": "2026-11-30T00:00:00Z",
        "until": "2026-12-02T00:00:00Z",
        "reason": "books are closed",
        **changes,
    }
    return {"allow": "destroys", "freezes": [freeze]}


def test_in_a_freeze_nothing_goes_alone() -> None:
    made = alone(after(**frozen()))
    assert held(made) == RELEASES | RESTART | COMES | OF_POLICY
    problem = line(made, TRAIN).problem
    assert problem and "until 2026-12-02T00:00:00Z: books are closed" in problem.message
    assert made.next_moment == "2026-12-02T00:00:00Z"
    assert held(alone(after(**frozen()), now=NOW + timedelta(hours=12))) == set()
    assert held(alone(after(**frozen(until="2026-12-01T12:00:00Z")))) == set()
    before = alone(after(**frozen(**{"from": "2026-12-01T13:00:00Z"})))
    assert (held(before), before.next_moment) == (set(), "2026-12-01T13:00:00Z")
    assert held(alone(after(**frozen(projects=["nlp"])))) == {"allocation/nlp/talk"}
    assert held(alone(after(**frozen(kinds=["user"])))) == {"user/cem"}


def test_a_freeze_may_begin_and_end_with_an_offset() -> None:
    """Both sides of a switch of the clock are moments, whatever clock they were written by."""
    freeze = frozen(**{"from": "2026-12-01T13:30:00+02:00", "until": "2026-12-01T14:00:00+01:00"})
    assert held(alone(after(**freeze))) == RELEASES | RESTART | COMES | OF_POLICY
    assert held(alone(after(**freeze), now=NOW + timedelta(hours=1))) == set()


NOTHING = [{"allow": "none"}, frozen()]


@pytest.mark.parametrize("automation", NOTHING, ids=["none", "freeze"])
def test_what_takes_access_away_is_never_held(automation: Mapping[str, Any]) -> None:
    """Rule 9: of a change that gives as well, what it takes is done and what it gives waits."""
    state = settled([policy(automation=automation), *BEFORE[1:]])
    documents = {(d["kind"], d["metadata"]["name"]): d for d in BEFORE}
    documents["Policy", "fleet"] = policy(automation=automation)
    del documents["Grant", "bo-on-keep"]
    documents["Allocation", "train"] = allocation("train", access=["ana"])
    documents["User", "ana"] = user("ana", "desk", "phone")
    documents["User", "bo"] = user("bo", "desk", state="suspended")
    made = alone(list(documents.values()), state)
    assert held(made) == {"user/ana"}
    assert {"forget grant/vision/bo-on-keep", "change user/bo"} <= set(told(made))
    revoked = {who for step in made.steps for who in step.revokes}
    assert {"ana/laptop", "bo"} <= revoked
    keys = {
        line
        for step in made.steps
        for file in getattr(step.item, "files", ())
        for line in file.content.split()
        if line.startswith("ana/")
    }
    assert not any("phone" in key for key in keys)


@pytest.mark.parametrize("automation", NOTHING, ids=["none", "freeze"])
def test_what_has_begun_or_was_known_to_end_is_never_held(automation: Mapping[str, Any]) -> None:
    lease = {"lease": {"defaultHours": 48, "maxHours": 480, "graceHours": 1}}
    rules = policy(automation=automation, release={"undoMinutes": 60}, **lease)
    ends = format_moment(NOW + timedelta(hours=2))
    short = allocation("short", expiresAt=ends)
    state = settled([rules, *base_fleet()[1:], short, allocation("gone"), allocation("back")])
    recorded = dict(state.recorded)
    for name in ("gone", "back"):
        ref = Ref("allocation", "vision", name)
        until = format_moment(NOW + timedelta(hours=1))
        recorded[ref] = replace(recorded[ref], phase=Phase.QUARANTINED, undo_until=until)
    state = replace(state, recorded=recorded)
    back = [rules, *base_fleet()[1:], short, allocation("back")]
    made = alone(back, state, now=NOW + timedelta(hours=4))
    assert held(made) == set()
    assert {
        "release allocation/vision/gone",
        "release allocation/vision/short",
        "restore allocation/vision/back",
    } <= set(told(made))


def test_what_needs_something_that_is_held_waits_with_it() -> None:
    documents = [
        policy(automation={"rules": [{"allow": "none", "kinds": ["sku", "node", "user"]}]}),
        *base_fleet()[1:],
        node("gpu03"),
        sku("slice-3", 2),
        allocation("big", "slice-3"),
        user("cem"),
        allocation("other"),
    ]
    made = alone(documents, settled(base_fleet()))
    assert held(made) == {"node/gpu03", "sku/slice-3", "allocation/vision/big", "user/cem"}
    problem = line(made, "allocation/vision/big").problem
    assert problem and problem.message == "it needs sku/slice-3, which is held"
    assert "create allocation/vision/other gpu01/s0" in told(made)


def test_without_a_policy_only_what_is_safe_goes_alone() -> None:
    kept = [one for one in BEFORE[1:] if one["metadata"]["name"] != "train"]
    assert held(alone(kept, settled(BEFORE[1:]))) == {TRAIN}


def test_the_consent_that_was_given_is_asked_as_well() -> None:
    made = alone(after(allow="interrupts"), hold_above=Risk.SAFE)
    codes = {str(c.ref): c.problem.code for c in made.changes if c.problem}
    assert codes["allocation/vision/stay"] == "held_for_approval"
