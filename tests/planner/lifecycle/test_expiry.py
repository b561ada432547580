"""Ends: a release that can be taken back, a lease that runs out, and who may join neither."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Cause, EndState, Order, Plan, Risk
from reconciler.model.problem import Problem
from reconciler.model.spec.desired import Absence, Desired
from reconciler.model.spec.reading import Reading
from reconciler.model.state.world import World
from reconciler.planner.placement.forecast import UNKNOWN
from tests.planner.fleet import NOW, allocation, base_fleet, desired, grant, policy, project
from tests.planner.walk import allocation_ref, applied, line, make_plan, settled, told

A, REF_A = allocation_ref("a"), "allocation/vision/a"
OPEN = {"mayBeOpenEnded": True}
HOUR = timedelta(hours=1)


def fleet(*more: dict[str, Any], **rules: Any) -> list[dict[str, Any]]:
    """A fleet whose releases can be taken back for an hour, and leases of two weeks by default."""
    rest = [one for one in base_fleet() if one["kind"] != "Policy"]
    stated = {"release": {"undoMinutes": 60}, "lease": {"graceHours": 24}, **rules}
    return [policy(**stated), *rest, *more]


def turned(state: World, **changes: Any) -> World:
    """The World with `a` as it has become."""
    return replace(state, recorded={**state.recorded, A: replace(state.recorded[A], **changes)})


def gone(state: World, **changes: Any) -> Plan:
    return make_plan(desired(fleet()), state, **changes)


def verbs(made: Plan) -> list[str]:
    return [step.verb for step in made.steps]


QUARANTINED = {
    "phase": Phase.QUARANTINED,
    "undo_until": format_moment(NOW + HOUR),
    "basis": "quarantined",
}
SHUT = ["access.sync", "allocation.quarantine"]
WIPED = ["access.sync", "allocation.release"]


class TestQuarantine:
    """Rule 12: a release first shuts off, and destroys only when nobody has taken it back."""

    def test_the_first_apply_wipes_nothing_and_keeps_the_place(self) -> None:
        """REL-01 REL-06: it asks, says what is lost and how long it can be taken back."""
        state = settled(fleet(allocation("a")))
        made = gone(state)
        change = line(made, REF_A)
        assert (change.action, change.risk, change.undo_minutes) == ("release", "destroys", 60)
        assert verbs(made) == SHUT
        facts = change.facts
        assert "quarantine 60 min (git revert restores) > wipe > proof > free" in facts["order"]
        assert facts["lost"].startswith("home ")
        assert facts["kept"]
        assert change.price_per_hour == {"EUR": "-2.10"}
        assert (made.figures.gpus_held_before, made.figures.gpus_held_after) == (1, 1)
        assert {fact for step in made.steps for fact in step.expected.values()} == {None}
        assert not any("/home" in key for step in made.steps for key in step.expected)
        after = applied(made, state)
        assert after.claims == state.claims
        assert after.recorded[A].phase is Phase.QUARANTINED

    def test_as_long_as_it_can_come_back_nothing_is_done_and_that_is_shown(self) -> None:
        state = turned(settled(fleet(allocation("a"))), **QUARANTINED)
        made = gone(state)
        assert made.changes == ()
        (end,) = made.ends
        assert (end.ref, end.state, end.at) == (A, EndState.QUARANTINED, QUARANTINED["undo_until"])
        assert made.next_moment == QUARANTINED["undo_until"]

    def test_afterwards_it_is_wiped_and_nobody_is_asked_again(self) -> None:
        """What was consented to once is not held, whatever consent this run has."""
        state = turned(settled(fleet(allocation("a"))), **QUARANTINED)
        made = gone(state, now=NOW + HOUR, hold_above=Risk.SAFE)
        change = line(made, REF_A)
        assert (change.problem, change.undo_minutes, change.cause) == (None, 0, Cause.CONSENTED)
        assert verbs(made) == WIPED
        assert "could come back until" in change.facts["consent"]
        assert change.price_per_hour == {}

    @pytest.mark.parametrize("later", [timedelta(0), HOUR, 100 * HOUR])
    def test_a_revert_brings_it_back_as_long_as_it_is_whole(self, later: timedelta) -> None:
        documents = fleet(allocation("a"))
        state = turned(settled(documents), **QUARANTINED)
        made = make_plan(desired(documents), state, now=NOW + later, hold_above=Risk.SAFE)
        assert told(made) == [f"restore {REF_A}"]
        assert sorted(verbs(made)) == [
            "access.sync",
            "allocation.provide",
            "runtime.write_env_file",
        ]
        assert line(made, REF_A).rate_per_hour == {"EUR": "2.10"}
        after = applied(made, state).recorded[A]
        assert (after.phase, after.undo_until, after.id) == (
            Phase.ACTIVE,
            "",
            state.recorded[A].id,
        )
        assert not any(key.startswith("runs ") for key in after.facts)

    def test_what_no_host_has_shown_is_asked_for_again(self) -> None:
        """A crash in the middle, or a host that was silent: its keys may still be there."""
        state = turned(settled(fleet(allocation("a"))), **QUARANTINED | {"basis": ""})
        made = gone(state, hold_above=Risk.SAFE)
        assert verbs(made) == SHUT
        assert line(made, REF_A).cause is Cause.CONSENTED
        again = applied(made, state).recorded[A]
        assert again.undo_until == QUARANTINED["undo_until"], "counted once"

    def test_a_file_that_cannot_be_read_lets_it_be(self) -> None:
        state = turned(settled(fleet(allocation("a"))), **QUARANTINED)
        wanted = desired(fleet(), frozen=frozenset({A}))
        assert told(make_plan(wanted, state, now=NOW + 9 * HOUR)) == [
            f"frozen {REF_A} resource_broken"
        ]

    @pytest.mark.parametrize("phase", [Phase.FAILED, Phase.PROVIDING])
    def test_what_was_never_used_goes_at_once(self, phase: Phase) -> None:
        state = turned(settled(fleet(allocation("a"))), phase=phase)
        assert verbs(gone(state)) == WIPED

    def test_without_minutes_a_release_is_of_one_step(self) -> None:
        documents = fleet(release={"undoMinutes": 0})
        state = settled([*documents, allocation("a")])
        made = make_plan(desired(documents), state)
        assert (verbs(made), line(made, REF_A).undo_minutes) == (WIPED, 0)

    def test_another_sku_within_the_minutes_is_a_replace(self) -> None:
        state = turned(settled(fleet(allocation("a"))), **QUARANTINED)
        made = make_plan(desired(fleet(allocation("a", "slice-2"))), state)
        assert told(made)[0].startswith(f"replace {REF_A}")

    def test_access_goes_first_and_what_was_made_goes_last(self) -> None:
        """REL-05 REL-07: revoked before anything ends, ended before anything is wiped."""
        state = settled(fleet(allocation("a")))
        shut, wiped = gone(state), gone(turned(state, **QUARANTINED), now=NOW + HOUR)
        for made, wanted in ((shut, SHUT), (wiped, WIPED)):
            (wave,) = made.waves
            assert [step.verb for step in wave.steps] == wanted
            assert {step.order for step in wave.steps} == {Order.RETIRE}

    def test_its_project_stays_with_it(self) -> None:
        """It gave its group a number, which must be the same when it comes back."""
        state = settled(fleet(allocation("a")))
        rest = [one for one in fleet() if one["metadata"]["name"] != "vision"]
        assert told(make_plan(desired(rest), state)) == [
            "blocked project/vision in_use",
            f"release {REF_A}",
        ]


def leased(end: str, **stated: Any) -> tuple[Desired, World]:
    """`a` as its file says, recorded with this end."""
    documents = fleet(allocation("a", **stated))
    wanted, state = desired(documents), turned(settled(documents), expires_at=end)
    return wanted, applied(make_plan(wanted, state, now=NOW - 9999 * HOUR), state)


PAST = "2026-11-30T12:00:00Z"


class TestLease:
    """`expiresAt` is consent given before, with warnings and a grace."""

    def test_a_missing_end_takes_the_default_and_the_plan_says_so(self) -> None:
        state = settled(fleet())
        made = make_plan(desired(fleet(allocation("a"))), state)
        end = format_moment(NOW + timedelta(days=14))
        assert line(made, REF_A).expires_at == end
        assert line(made, REF_A).facts["until"] == f"{end} (default of the policy, 14 days)"
        assert applied(made, state).recorded[A].expires_at == end
        texts = [f.content for s in made.steps for f in getattr(s.item, "files", ())]
        assert any(f"GPUAAS_EXPIRES={end}" in text for text in texts)
        assert any(f'"expiresAt": "{end}"' in text for text in texts)

    @pytest.mark.parametrize(
        ("lease", "end"),
        [
            ({"defaultHours": 5}, format_moment(NOW + 5 * HOUR)),
            ({"defaultHours": 5, "maxHours": 3}, format_moment(NOW + 3 * HOUR)),
            ({"maxHours": 48}, format_moment(NOW + 48 * HOUR)),
        ],
    )
    def test_a_project_has_terms_of_its_own(self, lease: dict[str, int], end: str) -> None:
        rest = [one for one in fleet() if one["metadata"]["name"] != "vision"]
        own = project("vision", "ana", "bo", lease=lease)
        made = make_plan(desired([*rest, own, allocation("a")]), settled([*rest, own]))
        assert line(made, REF_A).expires_at == end

    def test_what_lives_keeps_its_end_whatever_the_policy_says_later(self) -> None:
        documents = fleet(allocation("a"))
        state = settled(documents)
        shorter = fleet(allocation("a"), lease={"defaultHours": 1, "maxHours": 2})
        made = make_plan(desired(shorter), state)
        assert told(made) == ["change policy/fleet"]

    def test_a_lease_goes_on_in_another_place(self) -> None:
        """Who takes another SKU gets no new lease with it."""
        _, state = leased("2026-12-04T00:00:00Z")
        made = make_plan(desired(fleet(allocation("a", "slice-2"))), state)
        assert line(made, REF_A).expires_at == "2026-12-04T00:00:00Z"
        texts = [f.content for s in made.steps for f in getattr(s.item, "files", ())]
        assert any("GPUAAS_EXPIRES=2026-12-04T00:00:00Z" in text for text in texts)

    def test_leases_count_from_the_plan_that_was_shown(self) -> None:
        """F-PLN-05: time that passes until the yes makes no plan stale."""
        wanted, state = desired(fleet(allocation("a"))), settled(fleet())
        shown = make_plan(wanted, state)
        fresh = make_plan(wanted, state, now=NOW + HOUR / 2, leases_from=NOW)
        assert fresh.fingerprint == shown.fingerprint

    @pytest.mark.parametrize(
        ("recorded", "stated", "now", "line"),
        [
            (PAST, {}, NOW - HOUR, []),
            (PAST, {}, NOW, [f"release {REF_A}"]),
            ("", {}, NOW + 9999 * HOUR, []),
            # Who moves the end away is heard, also after the grace.
            (PAST, {"expiresAt": "2026-12-09T00:00:00Z"}, NOW, [f"change {REF_A}"]),
            # An edit alone ends nothing: the end must have been applied before.
            (
                "2026-12-09T00:00:00Z",
                {"expiresAt": "2026-11-01T00:00:00Z"},
                NOW,
                [f"change {REF_A}"],
            ),
        ],
    )
    def test_it_ends_after_its_grace(
        self, recorded: str, stated: dict[str, Any], now: datetime, line: list[str]
    ) -> None:
        _, state = leased(recorded)
        made = make_plan(desired(fleet(allocation("a", **stated))), state, now=now)
        assert told(made) == line

    def test_nobody_is_asked_and_it_can_still_come_back(self) -> None:
        wanted, state = leased(PAST)
        made = make_plan(wanted, state, hold_above=Risk.SAFE)
        change = line(made, REF_A)
        assert (change.cause, change.undo_minutes, change.problem) == (Cause.EXPIRED, 60, None)
        assert verbs(made) == SHUT
        quarantined = turned(state, **QUARANTINED)
        assert make_plan(wanted, quarantined).changes == (), "its file is no revert"
        later = make_plan(wanted, quarantined, now=NOW + HOUR, hold_above=Risk.SAFE)
        assert (verbs(later), line(later, REF_A).cause) == (WIPED, Cause.EXPIRED)
        extended = desired(fleet(allocation("a", expiresAt="2026-12-09T00:00:00Z")))
        assert told(make_plan(extended, quarantined)) == [f"restore {REF_A}"]

    def test_many_ends_at_once_are_no_merge_that_went_wrong(self) -> None:
        names = [f"a{number}" for number in range(7)]
        documents = fleet(*(allocation(name) for name in names))
        state = settled(documents)
        over = {
            ref: replace(one, expires_at=PAST) if one.id else one
            for ref, one in state.recorded.items()
        }
        made = make_plan(desired(documents), replace(state, recorded=over))
        assert [change.problem for change in made.of(Action.RELEASE)] == [None] * 7

    def test_what_is_protected_stays(self) -> None:
        wanted, state = leased(PAST, protect=True)
        assert told(make_plan(wanted, state)) == [f"blocked {REF_A} protected"]

    @pytest.mark.parametrize(
        ("hours", "state", "next_hours"),
        [(200, None, 32), (100, "expires", 76), (2, "expires", 1), (-1, "grace", 23)],
    )
    def test_warnings_come_before_and_the_plan_knows_the_next_moment(
        self, hours: int, state: str | None, next_hours: int
    ) -> None:
        wanted, world = leased(format_moment(NOW + hours * HOUR))
        made = make_plan(wanted, world)
        assert [end.state for end in made.ends] == ([state] if state else [])
        assert made.next_moment == format_moment(NOW + next_hours * HOUR)
        assert made.changes == ()


def refusal(made: Plan, ref: str) -> str:
    problem = line(made, ref).problem
    return problem.code if problem else ""


class TestWhatMayBegin:
    def test_an_expired_file_never_creates(self) -> None:
        """Whether it states an end that is over, or has gone since its time was over."""
        over = desired(fleet(allocation("a", expiresAt=PAST)))
        assert refusal(make_plan(over, settled(fleet())), REF_A) == "lease_lapsed"
        lapsed = replace(settled(fleet()), lapsed={A: PAST})
        assert refusal(make_plan(desired(fleet(allocation("a"))), lapsed), REF_A) == "lease_lapsed"
        anew = desired(fleet(allocation("a", expiresAt="2026-12-09T00:00:00Z")))
        assert told(make_plan(anew, lapsed)) == [f"create {REF_A} gpu01/s0"]

    def test_no_lease_is_longer_than_the_longest(self) -> None:
        """Counted from its begin, also for who extends it bit by bit."""
        documents = fleet(allocation("a"), lease={"defaultHours": 24, "maxHours": 48})
        state = settled(documents[:1] + [d for d in documents[1:] if d["kind"] != "Allocation"])
        for hours, code in ((48, ""), (49, "lease_too_long")):
            end = format_moment(NOW + hours * HOUR)
            wanted = desired([*documents[:-1], allocation("a", expiresAt=end)])
            assert refusal(make_plan(wanted, state), REF_A) == code
            lives = settled(documents)
            later = make_plan(wanted, lives, now=NOW + 20 * HOUR)
            assert refusal(later, REF_A) == code

    @pytest.mark.parametrize(
        ("stated", "waiting", "code"),
        [
            ({}, "", ""),
            ({}, "2026-12-01T11:00:00Z", ""),
            ({}, "2026-11-30T12:00:00Z", "wait_over"),
            ({"waitUntil": "2026-12-09T00:00:00Z"}, "2026-11-01T12:00:00Z", ""),
            ({"waitUntil": PAST}, "", "wait_over"),
        ],
    )
    def test_who_has_given_up_waiting_is_not_surprised_by_a_place(
        self, stated: dict[str, Any], waiting: str, code: str
    ) -> None:
        """Rule 17."""
        state = replace(settled(fleet()), waiting={A: waiting} if waiting else {})
        made = make_plan(desired(fleet(allocation("a", **stated))), state)
        assert refusal(made, REF_A) == code

    def test_the_plan_knows_when_somebody_gives_up(self) -> None:
        full = allocation("whole", "whole")
        documents = fleet(full, allocation("b", "whole"), allocation("a", "whole"))
        state = settled(documents[:-1])
        state = replace(state, waiting={A: "2026-12-01T11:00:00Z"})
        made = make_plan(desired(documents), state)
        assert refusal(made, REF_A) == "sku_unavailable"
        assert made.next_moment == "2026-12-02T11:00:00Z"


class TestWaiting:
    """Rule 17: the screen says when there may be a place, and when the wait is over."""

    def test_what_ends_next_is_what_to_wait_for(self) -> None:
        """Each place is promised to one alone, the first in line first."""
        held = [allocation(f"h{n}", "slice-8") for n in range(2)]
        waits = [allocation(name, "slice-8") for name in ("a", "b", "c")]
        state = settled(fleet(*held))
        ends = {allocation_ref("h0"): "2026-12-05T12:00:00Z", allocation_ref("h1"): ""}
        recorded = {
            ref: replace(one, expires_at=ends.get(ref, one.expires_at))
            for ref, one in state.recorded.items()
        }
        shut = replace(recorded[allocation_ref("h1")], **QUARANTINED)
        state = replace(state, recorded={**recorded, allocation_ref("h1"): shut})
        made = make_plan(desired(fleet(held[0], *waits)), state)
        fits = {name: line(made, f"allocation/vision/{name}").facts["fits"] for name in "abc"}
        assert fits == {
            "a": f"when allocation/vision/h1 ends ({QUARANTINED['undo_until']})",
            "b": "when allocation/vision/h0 ends (2026-12-05T12:00:00Z)",
            "c": UNKNOWN,
        }


class TestNothingJoinsWhatLeaves:
    """F-PLC-07: each is refused with the state as the reason."""

    @pytest.mark.parametrize(
        ("phase", "word"),
        [(Phase.QUARANTINED, "quarantined until"), (Phase.RELEASING, "releasing")],
    )
    def test_no_grant(self, phase: Phase, word: str) -> None:
        _, state = leased(PAST)
        state = turned(state, **QUARANTINED | {"phase": phase})
        documents = fleet(allocation("a"), grant("g", "a", "bo"))
        made = make_plan(desired(documents), state)
        change = line(made, "grant/vision/g")
        assert change.problem is not None
        assert (change.problem.code, word in change.problem.message) == (
            "allocation_leaving",
            True,
        )
        assert not change.steps

    def test_no_grant_in_the_commit_by_which_it_ends(self) -> None:
        documents = fleet(allocation("a"), grant("g", "a", "bo"))
        state = turned(settled(fleet(allocation("a"))), expires_at=PAST)
        made = make_plan(desired(documents), state)
        assert told(made) == ["blocked grant/vision/g allocation_leaving", f"release {REF_A}"]

    def test_a_grant_comes_with_what_is_taken_back(self) -> None:
        documents = fleet(allocation("a"), grant("g", "a", "bo"))
        state = turned(settled(fleet(allocation("a"))), **QUARANTINED)
        made = make_plan(desired(documents), state)
        assert told(made) == [f"restore {REF_A}", "create grant/vision/g"]

    def test_no_storage_bundle_or_restart(self) -> None:
        """Its time is over: nothing of it changes unless it gets more."""
        _, state = leased(PAST)
        state = turned(state, **QUARANTINED)
        made = make_plan(desired(fleet(allocation("a", restart={"generation": 1}))), state)
        assert told(made) == [f"blocked {REF_A} allocation_leaving"]
        problem = line(made, REF_A).problem
        assert problem is not None and "quarantined until" in problem.message

    def test_a_release_that_has_begun_is_finished_first_and_says_so(self) -> None:
        state = turned(settled(fleet(allocation("a"))), phase=Phase.RELEASING)
        made = make_plan(desired(fleet(allocation("a", protect=True))), state)
        assert told(made) == [f"release {REF_A}"]
        assert line(made, REF_A).facts["joins"].startswith("nothing any more")


class TestErrors:
    """Who keeps a document in error keeps no place by it: the end that was recorded holds."""

    def frozen(self, past: timedelta, **how: Any) -> Plan:
        state = settled(fleet(allocation("a", expiresAt=format_moment(NOW + HOUR))))
        return make_plan(replace(desired(fleet()), **how), state, now=NOW + HOUR + past)

    @pytest.mark.parametrize("how", [{"frozen": frozenset({A})}, {"broken": frozenset({"specs"})}])
    def test_a_lease_ends_though_nobody_can_read_its_document(self, how: dict[str, Any]) -> None:
        ended = line(self.frozen(25 * HOUR, **how), REF_A)
        assert (ended.action, ended.cause, ended.problem) == (Action.RELEASE, Cause.EXPIRED, None)
        in_grace = line(self.frozen(23 * HOUR, **how), REF_A)
        assert in_grace.action is Action.FROZEN
        assert in_grace.problem and in_grace.problem.code == "resource_broken"

    def test_what_nobody_sees_may_end_later(self) -> None:
        """Git keeps the file out of sight: a later end may stand in it."""
        hidden = {A: Absence(file="specs/a.yaml", hidden="a sparse checkout")}
        held = line(self.frozen(25 * HOUR, frozen=frozenset({A}), absent=hidden), REF_A)
        assert held.problem and held.problem.code == "specs_hidden"

    @pytest.mark.parametrize(
        ("ends", "action"),
        [
            ([NOW + 40 * HOUR], Action.FROZEN),
            ([NOW + 40 * HOUR, NOW + HOUR], Action.RELEASE),
            ([None], Action.RELEASE),
            ([NOW + 99999 * HOUR], Action.RELEASE),
        ],
    )
    def test_a_later_end_in_whole_documents_counts(
        self, ends: list[datetime | None], action: Action
    ) -> None:
        """Somebody else may be who made it an error; but no more time than there may be."""
        said = [{"expiresAt": format_moment(end)} if end else {} for end in ends]
        readings = {A: tuple(Reading(file="f", spec=one, whole=True) for one in said)}
        made = self.frozen(25 * HOUR, frozen=frozenset({A}), readings=readings)
        assert line(made, REF_A).action is action

    @pytest.mark.parametrize(("hours", "action"), [(100, "change"), (99999, "release")])
    def test_an_end_that_is_refused_is_not_stated(self, hours: int, action: str) -> None:
        state = settled(fleet(allocation("a", expiresAt=format_moment(NOW + HOUR))))
        later = fleet(allocation("a", expiresAt=format_moment(NOW + hours * HOUR)))
        made = make_plan(desired(later), state, now=NOW + 26 * HOUR)
        assert line(made, REF_A).action == action

    def test_an_empty_spec_root_ends_nothing(self) -> None:
        state = settled(fleet(allocation("a", expiresAt=format_moment(NOW + HOUR))))
        nothing = desired([])
        empty = Problem(code="spec_root_empty", message="it holds no document", hint="")
        made = make_plan(replace(nothing, problems=(empty,)), state, now=NOW + 30 * HOUR)
        assert line(made, REF_A).action is Action.FROZEN
