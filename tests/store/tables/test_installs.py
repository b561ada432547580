"""Installs, written: by what nodes show, however often they are asked and whoever looks."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.problem import Problem
from reconciler.model.state.install import Install, InstallState
from reconciler.store import queries
from reconciler.store.snapshot import read_world
from tests.harness.items import make_item
from tests.store.records import State, make_observation, ref

HELLO = ref("bundle/hello")
TREE = "sha256:" + "5" * 64
STAGING, STAGED, FAILED = InstallState.STAGING, InstallState.STAGED, InstallState.FAILED


def step(verb: str = "stage", version: str = "1.0") -> Step:
    lock = {} if verb == "discard" else {"lockDigest": "sha256:lock"}
    return Step(
        id=f"{verb}-{version}",
        verb=f"runtime.{verb}",
        node="gpu01",
        ref=HELLO,
        order=Order.ENRICH,
        item=make_item(f"runtime.{verb}", bundle="hello", version=version, **lock),
    )


def showing(fact: str | None, version: str = "1.0") -> Observation:
    shown = {} if fact is None else {f"runtime hello/{version}": fact}
    return make_observation(facts=NodeFacts(source="host", platform={"runtime *": "1", **shown}))


def work(
    state: State, one: Step, seen: Observation | None = None, problem: Problem | None = None
) -> None:
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(one,)))
    outcome = StepOutcome(step=one, ok=problem is None, changed=True, problem=problem)
    state.journal.finish_wave(
        run, WaveOutcome(steps=(outcome,), observations=(seen,) if seen else ())
    )


def installs(state: State) -> list[tuple[str, InstallState, str, str]]:
    found = read_world(state.database).installs
    return [(one.version, one.state, one.digest, one.problem) for one in found]


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (None, ("1.0", STAGING, "", "")),
        ("staging download", ("1.0", STAGING, "", "")),
        (f"staged {TREE}", ("1.0", STAGED, TREE, "")),
        ("failed runtime_no_space: 3 MiB", ("1.0", FAILED, "", "runtime_no_space: 3 MiB")),
        ("changed 2: bin/hello", ("1.0", FAILED, "", "changed 2: bin/hello")),
    ],
)
def test_it_is_what_its_node_shows(
    state: State, fact: str | None, expected: tuple[str, InstallState, str, str]
) -> None:
    """F-BUN-01 F-ANS-13 OBJ-04: a receipt says nothing, and nothing seen says nothing."""
    work(state, step(), showing(fact))
    assert installs(state) == [expected]


def test_a_later_look_settles_it(state: State) -> None:
    """F-ANS-13: whoever looks, in an apply or before it; one event for what is new."""
    work(state, step())
    state.journal.observe([showing("staging install")])
    assert installs(state) == [("1.0", STAGING, "", "")]
    state.journal.observe([showing(f"staged {TREE}")])
    assert installs(state) == [("1.0", STAGED, TREE, "")]
    told = [e.type.value for e in queries.events(state.database, "bundle/hello")]
    assert [word for word in told if word.startswith("stag")] == ["staging", "staged"]


def test_what_was_staged_keeps_the_digest_of_that_time(state: State) -> None:
    """What differs from it is drift, and is told by the plan."""
    work(state, step(), showing(f"staged {TREE}"))
    state.journal.observe([showing("changed 1: activate.sh")])
    assert installs(state) == [("1.0", STAGED, TREE, "")]
    work(state, step("repair"), showing("staging verify"))
    assert installs(state) == [("1.0", STAGING, "", "")]


def test_one_job_began_once(state: State) -> None:
    work(state, step())
    (first,) = read_world(state.database).installs
    work(state, step())
    assert read_world(state.database).installs == (first,)
    assert first == Install(
        node="gpu01",
        bundle="hello",
        version="1.0",
        lock_digest="sha256:lock",
        state=STAGING,
        since=first.since,
    )


def test_what_a_host_refuses_has_failed(state: State) -> None:
    """Unless it shows otherwise; a host that is not heard of leaves it open."""
    problem = Problem(code="runtime_no_space", message="3 MiB left", hint="")
    work(state, step(), None, problem)
    assert installs(state) == [("1.0", FAILED, "", "runtime_no_space: 3 MiB left")]
    work(state, step(), showing("staging space"), problem)
    assert installs(state) == [("1.0", STAGING, "", "")]


def test_what_is_unknown_has_not_failed(state: State) -> None:
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(step(),)))
    outcome = StepOutcome(
        step=step(),
        ok=False,
        changed=False,
        unknown=True,
        problem=Problem(code="unreachable", message="", hint=""),
    )
    state.journal.finish_wave(run, WaveOutcome(steps=(outcome,)))
    assert installs(state) == [("1.0", STAGING, "", "")]


def test_versions_stand_beside_one_another_until_they_are_discarded(state: State) -> None:
    for version in ("1.0", "2.0"):
        work(state, step(version=version), showing(f"staged {TREE}", version))
    work(state, step("discard"), None, Problem(code="runtime_in_use", message="x", hint=""))
    assert len(installs(state)) == 2
    work(state, step("discard"))
    assert [version for version, *_ in installs(state)] == ["2.0"]


def test_a_node_that_is_forgotten_has_none(state: State) -> None:
    """Another host may come by its name."""
    work(state, step(), showing(f"staged {TREE}"))
    state.journal.unsee([ref("node/gpu01")])
    assert installs(state) == []


def test_no_statement_makes_it_staged(state: State, raw: sqlite3.Connection) -> None:
    """F-BUN-01: what is staged has been seen."""
    work(state, step())
    with pytest.raises(sqlite3.IntegrityError, match="its host has shown"):
        raw.execute("UPDATE install SET state = 'staged'")
    with pytest.raises(sqlite3.IntegrityError, match="never moves"):
        raw.execute("UPDATE install SET node = 'gpu02'")


def test_other_nodes_say_nothing_about_it(state: State) -> None:
    work(state, step())
    state.journal.observe([replace(showing(f"staged {TREE}"), node="gpu02")])
    assert installs(state) == [("1.0", STAGING, "", "")]
