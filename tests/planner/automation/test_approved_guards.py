"""Each guard: the accident is stopped, the honest case goes once it is approved, and an approval
for one change serves no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.plan import Plan
from reconciler.model.state.world import World
from tests.planner.automation.test_guards import (
    ALONE,
    FLEET,
    VISION,
    alone,
    approved,
    fleet,
    held,
    in_files,
    names,
    removed,
)
from tests.planner.fleet import NOW, allocation, grant, policy, user
from tests.planner.walk import applied, settled

Documents = Sequence[Mapping[str, Any]]
PEOPLE = [user(f"p{number}") for number in range(12)]
FREEZE = {
    "name": "year-end",
    "from": format_moment(NOW - timedelta(days=1)),
    "until": format_moment(NOW + timedelta(days=1)),
    "reason": "books are closed",
}


@dataclass(frozen=True, kw_only=True)
class Accident:
    """What git wants `after`, and after `another` one, in both of which `code` holds changes."""

    code: str
    state: Callable[[], World]
    after: Documents
    another: Documents


def before(*documents: Mapping[str, Any]) -> Callable[[], World]:
    return lambda: settled([*documents])


def _of_folder() -> World:
    more = [allocation(name) for name in ("a00", "a01", "c00", "c01")]
    files = {
        **VISION,
        "allocation/vision/c00": "specs/other/c00.yaml",
        "allocation/vision/c01": "specs/other/c01.yaml",
    }
    return in_files(settled([*fleet(["keep"], ["b00"]), *more]), files)


def _by_rules(automation: Mapping[str, Any], *kept: str) -> list[Mapping[str, Any]]:
    return [policy(automation=automation), *FLEET[1:], *map(allocation, kept)]


def _within_a_day() -> World:
    state = settled(fleet(names("a", 30)))
    return removed(state, alone(fleet(names("a", 30)[5:]), state), format_moment(NOW))


SHARE = policy(automation={"allow": "destroys"}, guard={"maxRemovals": 2, "maxRemovalPercent": 20})
"""Six of thirty may go."""

SAFE, CLOSED = {"allow": "safe"}, {"allow": "destroys", "freezes": [FREEZE]}
ACCIDENTS = {
    "more than N": Accident(
        code="removals_guard",
        state=before(*fleet(names("a", 30))),
        after=fleet(names("a", 30)[20:]),
        another=fleet(names("a", 30)[:20]),
    ),
    "more than P %": Accident(
        code="removals_guard",
        state=before(SHARE, *fleet(names("a", 30))[1:]),
        after=[SHARE, *fleet(names("a", 30)[7:])[1:]],
        another=[SHARE, *fleet(names("a", 30)[:23])[1:]],
    ),
    "more than N of a day": Accident(
        code="removals_guard",
        state=_within_a_day,
        after=fleet(names("a", 30)[7:]),
        another=fleet(names("a", 30)[5:28]),
    ),
    "a whole project": Accident(
        code="project_guard",
        state=before(*fleet(["a00", "a01"], ["b00", "b01"])),
        after=fleet(["a00", "a01"]),
        another=fleet((), ["b00", "b01"]),
    ),
    "a whole folder": Accident(
        code="folder_guard",
        state=_of_folder,
        after=[*fleet(["keep"], ["b00"]), allocation("c00"), allocation("c01")],
        another=[*fleet(["keep"], ["b00"]), allocation("a00"), allocation("a01")],
    ),
    "many people": Accident(
        code="revocations_guard",
        state=before(*fleet(["a00"]), *PEOPLE),
        after=[*fleet(["a00"]), *PEOPLE[6:]],
        another=[*fleet(["a00"]), *PEOPLE[:6]],
    ),
    "what the Policy holds": Accident(
        code="held_by_policy",
        state=lambda: settled(_by_rules(SAFE, "a00", "a01", "a02", "a03", "a04")),
        after=_by_rules(SAFE, "a00", "a03", "a04"),
        another=_by_rules(SAFE, "a00", "a01", "a02"),
    ),
    "a freeze": Accident(
        code="held_by_policy",
        state=lambda: settled(_by_rules(CLOSED, "a00", "a01", "a02", "a03", "a04")),
        after=_by_rules(CLOSED, "a00", "a03", "a04"),
        another=_by_rules(CLOSED, "a00", "a01", "a02"),
    ),
}


@pytest.mark.parametrize("name", ACCIDENTS)
def test_the_accident_is_stopped_and_the_honest_case_goes(name: str) -> None:
    one = ACCIDENTS[name]
    state = one.state()
    stopped = alone(one.after, state)
    asked = [change for change in stopped.changes if change.problem]
    assert set(held(stopped).values()) == {one.code} and len(asked) > 1
    assert stopped.active == ()
    honest = alone(one.after, approved(state, asked))
    assert held(honest) == {}
    assert {c.consent for c in honest.active} == {c.fingerprint for c in asked}
    assert {c.ref for c in applied(honest, state).recorded.values()}.isdisjoint(
        {c.ref for c in asked}
    )


@pytest.mark.parametrize("name", ACCIDENTS)
def test_an_approval_serves_no_other_accident(name: str) -> None:
    """Of other things, by other fingerprints, or of the same ones once that is over or used."""
    one = ACCIDENTS[name]
    state = one.state()
    asked = [change for change in alone(one.after, state).changes if change.problem]
    other = alone(one.another, approved(state, asked))
    assert set(held(other).values()) == {one.code}
    assert not any(c.consent for c in other.active)
    for changes in (
        {"fingerprint": "sha256:another"},
        {"expires_at": format_moment(NOW)},
        {"used_at": format_moment(NOW)},
    ):
        again = alone(one.after, approved(state, asked, **changes))
        assert held(again) == held(alone(one.after, state))


@pytest.mark.parametrize("name", ["a whole project", "a whole folder"])
def test_what_is_approved_of_a_whole_does_not_let_the_rest_go(name: str) -> None:
    """The rest would be few enough to go by itself, now or in the next plan."""
    one = ACCIDENTS[name]
    state = one.state()
    asked = [change for change in alone(one.after, state).changes if change.problem]
    for first in asked:
        made = alone(one.after, approved(state, [first]))
        assert (set(held(made).values()), made.active) == ({one.code}, ())
        # With the others back, it goes.
        back = [allocation(c.ref.name, project=c.ref.project) for c in asked if c is not first]
        honest = alone([*one.after, *back], approved(state, [first]))
        assert held(honest) == {}
        assert [str(c.ref) for c in honest.active] == [str(first.ref)]


def test_what_is_protected_goes_once_that_is_taken_away_and_by_no_approval() -> None:
    protected, plain = allocation("a00", protect=True), allocation("a00")
    rest = _by_rules(SAFE, "a01")
    state = settled([*rest, protected])
    stopped = alone(rest, state)
    assert held(stopped) == {"allocation/vision/a00": "protected"}
    assert stopped.changes[0].fingerprint == ""
    # Nor by an approval of the same release while it was not protected.
    before = settled([*rest, plain])
    ours = approved(before, alone(rest, before).changes).consents
    assert held(alone(rest, replace(state, consents=ours))) == held(stopped)
    unprotected = applied(alone([*rest, plain], state), state)
    asked = alone(rest, unprotected).changes
    honest = alone(rest, approved(unprotected, asked))
    assert (held(honest), [str(c.ref) for c in honest.active]) == ({}, ["allocation/vision/a00"])


def test_an_empty_source_is_brought_back_or_said_otherwise() -> None:
    """No approval is for nothing at all; whoever means it leaves what says so."""
    state = settled(fleet(["a00", "a01"], ["b00", "b01"], grant("bo-on-a00", "a00", "bo")))
    rest: Documents = [*FLEET]
    stopped = alone(rest, state)
    asked = [change for change in stopped.changes if change.problem]
    assert set(held(stopped).values()) == {"project_guard"}
    honest = alone(rest, approved(state, asked))
    assert held(honest) == {}
    assert {str(c.ref) for c in honest.active if c.action == "release"} == {
        f"allocation/{name}" for name in ("vision/a00", "vision/a01", "nlp/b00", "nlp/b01")
    }


def moment(text: str) -> datetime:
    found = parse_moment(text)
    assert found is not None
    return found


BERLIN = {
    # On the wall of Berlin each of them lasts from 01:30 to 03:30.
    "to summer": ("2027-03-28T01:30:00+01:00", "2027-03-28T03:30:00+02:00", timedelta(hours=1)),
    "to winter": ("2027-10-31T01:30:00+02:00", "2027-10-31T03:30:00+01:00", timedelta(hours=3)),
}


@pytest.mark.parametrize("turn", BERLIN)
def test_a_freeze_over_a_switch_of_the_clock_is_as_long_as_it_says(turn: str) -> None:
    begins, ends, lasts = BERLIN[turn]
    freeze = {"name": "night", "from": begins, "until": ends, "reason": "the clock"}
    rules = {"allow": "destroys", "freezes": [freeze]}
    state = settled(_by_rules(rules, "a00", "a01"))
    after = _by_rules(rules, "a00")

    def at(now: datetime, world: World = state) -> Plan:
        return alone(after, world, now=now)

    start, second = moment(begins), timedelta(seconds=1)
    assert moment(ends) - start == lasts
    stopped = at(start)
    code = {"allocation/vision/a01": "held_by_policy"}
    assert held(stopped) == held(at(start + lasts - second)) == code
    assert held(at(start - second)) == held(at(start + lasts)) == {}
    ours = approved(state, stopped.changes, expires_at=format_moment(start + timedelta(hours=2)))
    assert held(at(start + second, ours)) == {}
    if lasts > timedelta(hours=2):
        assert held(at(start + timedelta(hours=2), ours)) == code


@pytest.mark.parametrize("turn", BERLIN)
def test_what_a_closed_window_holds_goes_by_an_approval_or_when_it_opens(turn: str) -> None:
    begins, ends, _ = BERLIN[turn]
    window = {"name": "night", "from": "01:30", "to": "03:30", "timeZone": "Europe/Berlin"}
    rules = {"windows": [{**window, "allow": "destroys"}]}
    state = settled(_by_rules(rules, "a00", "a01"))
    after = _by_rules(rules, "a00")
    start, end, second = moment(begins), moment(ends), timedelta(seconds=1)
    code = {"allocation/vision/a01": "held_by_policy"}
    stopped = alone(after, state, now=start - second)
    assert held(stopped) == held(alone(after, state, now=end)) == code
    assert held(alone(after, state, now=start)) == held(alone(after, state, now=end - second)) == {}
    ours = approved(state, stopped.changes, expires_at=format_moment(end + timedelta(hours=1)))
    assert held(alone(after, ours, now=start - second)) == {}
    assert held(alone(after, ours, now=end + timedelta(hours=2))) == code


def test_all_alone_is_what_the_tests_say() -> None:
    """Else a guard would be shown to hold what the Policy holds anyhow."""
    assert ALONE["spec"]["automation"] == {"allow": "destroys"}
