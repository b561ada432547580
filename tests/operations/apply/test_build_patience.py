"""Builds while nobody waits: looked at with patience, and judged by what shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import Host, StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.operations.apply.wave.builds import BuildPatience, await_builds, judge_build
from tests.harness.items import make_item

HELLO = Ref("bundle", "", "hello")


def step(verb: str = "runtime.stage", node: str = "n01", version: str = "1.0") -> Step:
    item = make_item(verb, bundle="hello", version=version)
    return Step(
        id=f"{node}-{version}", verb=verb, node=node, ref=HELLO, order=Order.ENRICH, item=item
    )


def seen(fact: str, node: str = "n01", version: str = "1.0") -> Observation:
    named = {"runtime *": "listed", **({f"runtime hello/{version}": fact} if fact else {})}
    return Observation(node=node, at="", facts=NodeFacts(source="x", boot_id="b", platform=named))


@pytest.mark.parametrize(
    ("fact", "ok", "unknown", "code", "is_error"),
    [
        ("staged sha256:1", True, False, "", False),
        ("staging download", False, True, "staging_under_way", False),
        ("failed runtime_hash_wrong: a wheel", False, False, "runtime_hash_wrong", True),
        ("failed whatever it says", False, False, "runtime_install_failed", True),
        ("failed runtime_interrupted: it ended", False, False, "runtime_interrupted", True),
        ("changed 1: bin/x", False, False, "runtime_interrupted", True),
        ("failed host_key_changed: x", False, False, "runtime_install_failed", True),
        ("failed staging_under_way: x", False, False, "runtime_install_failed", True),
        ("", False, True, "runtime_interrupted", True),
    ],
)
def test_what_shows_is_what_has_become_of_it(
    fact: str, ok: bool, unknown: bool, code: str, is_error: bool
) -> None:
    """F-ANS-13 BND-28: that a host has begun is no success, and a lost word is no failure."""
    begun = StepOutcome(step=step(), ok=True, changed=True)
    judged = judge_build(begun, seen(fact))
    assert (judged.ok, judged.unknown) == (ok, unknown)
    assert (judged.problem.code if judged.problem else "") == code
    assert bool(judged.problem and judged.problem.is_error) is is_error


def test_what_was_not_even_begun_stays_as_it_was_judged() -> None:
    refused = Problem(code="verb_failed", message="no")
    outcome = StepOutcome(step=step(), ok=False, changed=False, problem=refused)
    assert judge_build(outcome, seen("staged sha256:1")) is outcome


def test_what_somebody_uses_stays_for_now() -> None:
    """F-BUN-04: nothing has gone wrong; the next apply asks again."""
    used = Problem(code="runtime_in_use", message="process 7 uses it")
    discard = StepOutcome(step=step("runtime.discard"), ok=False, changed=False, problem=used)
    judged = judge_build(discard, seen("staged sha256:1"))
    assert judged.problem is not None and not judged.ok
    assert (judged.problem.code, judged.problem.is_error) == ("runtime_in_use", False)


class Looking:
    """Hosts that show one thing after the other, and a clock that goes on while nobody looks."""

    def __init__(self, **shown: Sequence[str]) -> None:
        self.shown = {node: list(facts) for node, facts in shown.items()}
        self.now, self.looks, self.told = 0.0, list[list[str]](), list[tuple[str, str, str]]()
        self.stopped = False

    def look(self, hosts: Sequence[Host]) -> Mapping[str, Observation]:
        self.looks.append([host.node for host in hosts])
        return {h.node: seen(self.shown[h.node].pop(0), h.node) for h in hosts}

    def wait(self, limit: float = 100.0) -> Mapping[str, Observation]:
        building = {
            node: (
                Host(node=node, address="local", root="/", isolation="directory"),
                [step(node=node)],
            )
            for node in self.shown
        }
        first = {node: seen(facts.pop(0), node) for node, facts in self.shown.items()}
        patience = BuildPatience(
            stop=lambda: self.stopped,
            tell=lambda node, phase, what: self.told.append((node, phase, what)),
            limit=limit,
            clock=lambda: self.now,
            sleep=self._sleep,
        )
        return await_builds(building, first, self.look, patience)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def fact_of(found: Mapping[str, Observation], node: str) -> str:
    facts = found[node].facts
    assert facts is not None and facts.platform is not None
    return facts.platform.get("runtime hello/1.0", "")


def test_each_is_looked_at_until_it_is_at_its_end() -> None:
    """And its phases are told, each once; what a host calls otherwise is the first of them."""
    hosts = Looking(
        n01=["staging download", "staging download", "staging ???", "staged sha256:1"],
        n02=["staging space", "failed runtime_hash_wrong: x"],
    )
    found = hosts.wait()
    assert fact_of(found, "n01") == "staged sha256:1"
    assert fact_of(found, "n02").startswith("failed")
    assert hosts.looks == [["n01", "n02"], ["n01"], ["n01"]]
    assert hosts.told == [
        ("n01", "download", "hello 1.0"),
        ("n02", "space", "hello 1.0"),
        ("n01", "space", "hello 1.0"),
    ]


def test_nobody_waits_for_what_is_there() -> None:
    hosts = Looking(n01=["staged sha256:1"])
    assert fact_of(hosts.wait(), "n01") == "staged sha256:1"
    assert hosts.looks == []


def test_patience_ends() -> None:
    hosts = Looking(n01=["staging install"] * 100)
    assert fact_of(hosts.wait(limit=30.0), "n01") == "staging install"
    assert 30.0 <= hosts.now < 50.0
    assert len(hosts.looks) < 15, "looks come more seldom the longer it takes"


def test_whoever_does_not_want_to_wait_does_not() -> None:
    hosts = Looking(n01=["staging install"] * 3)
    hosts.stopped = True
    hosts.wait()
    assert hosts.looks == []
