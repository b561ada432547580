"""Operations and phases out of events: what names them, where they end, and what stays open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.hosts.verbs import VERBS
from reconciler.model.state.event import Event, EventType
from reconciler.model.timeline import (
    MOMENTS,
    NAMES,
    OperationFacts,
    Standing,
    StepTold,
    Under,
    name_of,
)
from reconciler.planner.diagnosis.timeline import operations_of

REF = "allocation/vision/train"
TICKS = {"connect": "09:00:01", "converge": "09:00:02", "observe": "09:00:09", "done": "09:00:10"}


def event(kind: str, at: str, run: str = "run-1", reason: str = "", **after: Any) -> Event:
    before = after.pop("before", None)
    return Event(
        type=EventType(kind), actor="olga", ref=REF, commit="3f9c2e1", run=run, at=at,
        reason=reason, before=before, after=after or None, sequence=int(at.replace(":", "") or 0),
    )  # fmt: skip


def step(verb: str, at: str, end: str = "", run: str = "run-1", **more: Any) -> list[Event]:
    """A step on gpu01, with its end unless there is none."""
    asked = event("step_started", at, run, step=verb, verb=verb, node="gpu01")
    told = {"step": verb, "state": more.pop("state", "done"), **more}
    reason = told.pop("reason", "")
    return [asked, *([event("step_ended", end, run, reason, **told)] if end else [])]


def asked(*verbs: str) -> OperationFacts:
    return OperationFacts(types=frozenset({EventType.STEP_STARTED}), verbs=frozenset(verbs))


def of(*types: EventType) -> OperationFacts:
    return OperationFacts(types=frozenset(types), verbs=frozenset())


CASES = {
    "replace": of(EventType.CLAIMED, EventType.CLAIM_RELEASING),
    "release": asked("allocation.quarantine", "storage.detach", "allocation.release"),
    "quarantine": asked("allocation.quarantine"),
    "restore": OperationFacts(
        types=frozenset(), verbs=frozenset(), before="quarantined", after="active"
    ),
    "restart": asked("allocation.restart"),
    "prepare": asked("node.prepare"),
    "adopt": OperationFacts(types=frozenset(), verbs=frozenset(), action="adopt"),
    "repair": OperationFacts(types=frozenset(), verbs=frozenset({"access.sync"}), action="repair"),
    "stage": asked("runtime.stage"),
    "discard": asked("runtime.discard"),
    "create": of(EventType.CLAIMED),
    "fence": of(EventType.FENCED),
    "reopen": of(EventType.REOPENING),
    "wipe": of(EventType.VOLUME_WIPING, EventType.VOLUME_GONE, EventType.FORGOTTEN),
    "keep": of(EventType.VOLUME_KEPT, EventType.FORGOTTEN),
    "forget": of(EventType.FORGOTTEN),
    "rename": of(EventType.RENAMED),
    "change": asked("access.sync"),
    "record": of(EventType.RECORDED),
}


@pytest.mark.parametrize("name", [name for name, _ in NAMES])
def test_every_row_names_its_operation(name: str) -> None:
    assert name_of(CASES[name], EventType.RECORDED) == name


def test_what_no_row_names_is_called_by_its_event() -> None:
    assert name_of(of(EventType.REFUSED), EventType.REFUSED) == "refused"
    assert name_of(of(EventType.OVERRIDDEN), EventType.OVERRIDDEN) == "override"


def phases(events: Iterable[Event], **more: Any) -> list[tuple[str, str, str, str]]:
    (operation,) = operations_of(events, more.pop("steps", {}), more.pop("under", None))
    return [(one.name, one.started, one.ended, one.state.value) for one in operation.phases]


CREATE = [
    event("waiting", "08:00:00", run=""),
    event("claimed", "09:00:00", node="gpu01", slot="s0", reason="tightest fit of 2"),
    event("claimed", "09:00:00", node="gpu01", slot="s1", reason="tightest fit of 2"),
    *step("allocation.provide", "09:00:00", "09:00:10", ticks=TICKS),
    event("recorded", "09:00:10", phase="active"),
]


def test_a_creation_from_its_wait_to_its_record() -> None:
    """VIS-01: phases with start and end, of a wait that began in another run as well."""
    assert phases(CREATE) == [
        ("wait", "08:00:00", "09:00:00", "done"),
        ("claim", "09:00:00", "09:00:00", "done"),
        ("connect", "09:00:01", "09:00:02", "done"),
        ("work", "09:00:02", "09:00:09", "done"),
        ("look", "09:00:09", "09:00:10", "done"),
        ("record", "09:00:10", "09:00:10", "done"),
    ]
    (operation,) = operations_of(CREATE, {})
    assert (operation.name, operation.started, operation.ended) == (
        "create",
        "08:00:00",
        "09:00:10",
    )
    assert operation.phases[1].detail == "gpu01/s0, gpu01/s1 · tightest fit of 2"


RELEASE = [
    event("claim_releasing", "10:00:00", claim="c1"),
    *step("allocation.release", "10:00:00", "10:00:09", ticks=TICKS),
    event("proved", "10:00:09", node="gpu01", slot="s0", passed=True),
    event("claim_freed", "10:00:09", claim="c1"),
    event("forgotten", "10:00:09"),
]
RESTART = [*step("allocation.restart", "10:00:00", "10:00:09", ticks=TICKS),
           event("recorded", "10:00:09", before={"phase": "active"}, phase="active")]  # fmt: skip


@pytest.mark.parametrize("told", [CREATE, RELEASE, RESTART], ids=["create", "release", "restart"])
def test_every_long_operation_has_its_phases(told: list[Event]) -> None:
    """VIS-01, VIS-05: at least three, each with its end."""
    found = phases(told)
    assert len(found) >= 3
    assert all(ended >= started for _, started, ended, _ in found)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_whatever_a_host_is_asked_for_has_three_phases(verb: str) -> None:
    """VIS-05: apps and bundles are not applied yet; the rule is for every verb that there is."""
    found = phases(step(verb, "10:00:00", "10:00:09", ticks=TICKS))
    assert [name for name, *_ in found] == ["connect", "work", "look"]


def test_a_build_tells_what_it_goes_through() -> None:
    """BND-25: a bundle has phases of its own, though its host was asked only once."""
    ticks = {**TICKS, "done": "09:02:00", "download": "09:00:12", "verify": "09:01:40"}
    told = [
        event("staging", "09:00:00", node="gpu01", version="1.0"),
        *step("runtime.stage", "09:00:00", "09:02:00", ticks=ticks),
        event("staged", "09:02:00", node="gpu01", version="1.0"),
    ]
    assert [(name, started, ended) for name, started, ended, _ in phases(told)] == [
        ("staging", "09:00:00", "09:00:00"),
        ("connect", "09:00:01", "09:00:02"),
        ("work", "09:00:02", "09:00:09"),
        ("look", "09:00:09", "09:00:12"),
        ("download", "09:00:12", "09:01:40"),
        ("verify", "09:01:40", "09:02:00"),
        ("staged", "09:02:00", "09:02:00"),
    ]
    (operation,) = operations_of(told, {})
    assert operation.name == "stage"


def test_a_failure_tells_its_code_its_words_and_its_log() -> None:
    """VIS-04"""
    failed = step(
        "allocation.provide", "09:00:00", "09:00:10", state="failed", reason="verb_failed"
    )
    words = {("run-1", "allocation.provide"): StepTold(message="no space", log="df: 100%")}
    (operation,) = operations_of(failed, words)
    (phase,) = operation.phases
    assert operation.state is phase.state is Standing.FAILED
    assert phase.detail == "allocation.provide · verb_failed · no space"
    assert phase.log == "df: 100%"


def test_what_is_under_way_tells_when_it_last_moved() -> None:
    """VIS-03: by what its host has told so far; the same without anybody at work is unknown."""
    begun = step("allocation.provide", "09:00:00")
    under = Under(run="run-1", ticks={"gpu01": {"connect": "09:00:01", "converge": "09:00:07"}})
    assert phases(begun, under=under) == [
        ("connect", "09:00:01", "09:00:07", "done"),
        ("work", "09:00:07", "", "running"),
    ]
    (operation,) = operations_of(begun, {}, under)
    assert (operation.state, operation.progress) == (Standing.RUNNING, "09:00:07")
    assert phases(begun) == [("work", "09:00:00", "", "unknown")]
    other = Under(run="run-2", ticks=under.ticks)
    assert phases(begun, under=other) == [("work", "09:00:00", "", "unknown")]


def test_a_failed_proof_is_a_failed_phase() -> None:
    told = [
        event("proved", "10:00:09", node="gpu01", slot="s0", passed=False),
        event("claim_blocked", "10:00:09", claim="c1", reason="processes fail: 8812"),
    ]
    (operation,) = operations_of(told, {})
    assert operation.state is Standing.FAILED
    assert operation.phases[1].detail == "processes fail: 8812"


def test_who_waits_still_is_under_way() -> None:
    (operation,) = operations_of([event("waiting", "08:00:00", run="")], {})
    assert (operation.name, operation.state) == ("wait", Standing.RUNNING)


def test_two_runs_are_two_operations_and_so_is_each_event_outside() -> None:
    told = [*CREATE, event("refused", "09:30:00", run="", reason="protected"), *RELEASE]
    told = [e if e.at < "10" else replace(e, run="run-2") for e in told]
    names = [(one.name, one.run) for one in operations_of(told, {})]
    assert names == [("create", "run-1"), ("refused", ""), ("release", "run-2")]


def test_moments_are_words_of_their_own() -> None:
    assert len(set(MOMENTS.values())) == len(MOMENTS)
