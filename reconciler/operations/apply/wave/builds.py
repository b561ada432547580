"""Builds: bundles that hosts are building are observed until they are done or have failed.

A host builds by itself. Whether it does, did, or was cut short is what it shows, and never what a
background job has said; nothing is begun a second time while somebody is at it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from reconciler.model.codes import CODES
from reconciler.model.host.evidence import Observation
from reconciler.model.host.facts.runtime_fact import (
    RuntimeFact,
    RuntimeWord,
    read_runtime,
    runtime_key,
)
from reconciler.model.plan.items.bundle import BundleItem
from reconciler.model.plan.plan import Step
from reconciler.model.plan.verb import STAGING, Verb
from reconciler.model.plan.work import Host, StepOutcome
from reconciler.model.problem import Problem, Severity
from reconciler.model.records import dataclass
from reconciler.model.timeline import BUILD

NAP = 0.5
UNDER_WAY, CUT_SHORT = "staging_under_way", "runtime_interrupted"
OF_BUILDS = "runtime_"
"""How codes begin that a builder may choose, who runs the code of strangers."""
NOT_INSTALLED, IN_USE = "runtime_install_failed", "runtime_in_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPatience:
    """How long to wait for builds: `limit` seconds for all, with looks ever further apart.

    `stop` says whether somebody does not want to wait any more; `tell` is given a node, the phase
    that it is at, and of what, each once.
    """

    stop: Callable[[], bool]
    tell: Callable[[str, str, str], None]

    limit: float = 3900.0
    between: float = 1.0
    longest: float = 15.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


Look = Callable[[Sequence[Host]], Mapping[str, Observation]]


def await_builds(
    building: Mapping[str, tuple[Host, Sequence[Step]]],
    seen: Mapping[str, Observation],
    look: Look,
    patience: BuildPatience,
) -> Mapping[str, Observation]:
    """By node, the first look at which nothing is being built any more, else the last.

    `building` are steps by node, with its host, and `seen` what nodes show by now.
    """
    began, rest = patience.clock(), patience.between
    last, told = dict(seen), dict[str, tuple[str, str]]()
    while not patience.stop() and patience.clock() - began < patience.limit:
        waiting = []
        for node, (host, steps) in building.items():
            phases = [at for step in steps if (at := _at_work(step, last.get(node)))]
            if phases:
                waiting.append(host)
                if told.get(node) != phases[0]:
                    told[node] = phases[0]
                    patience.tell(node, *phases[0])
        if not waiting:
            break
        _rest(rest, patience)
        rest = min(rest * 1.3, patience.longest)
        last |= look(waiting)
    return last


def _rest(seconds: float, patience: BuildPatience) -> None:
    """No longer than somebody wants to wait."""
    until = patience.clock() + seconds
    while not patience.stop() and (left := until - patience.clock()) > 0:
        patience.sleep(min(left, NAP))


def judge_build(outcome: StepOutcome, seen: Observation | None) -> StepOutcome:
    """The outcome of a build, by the look alone; that it was begun is no success.

    A version that somebody uses stays for now: that is no failure.
    """
    step, problem = outcome.step, outcome.problem
    if step.verb == Verb.DISCARD and problem is not None and problem.code == IN_USE:
        return replace(outcome, problem=replace(problem, severity=Severity.WARNING))
    if step.verb not in STAGING or not outcome.ok:
        return outcome
    fact = _fact(step, seen)
    if fact.word is RuntimeWord.STAGED:
        return outcome
    if fact.word is RuntimeWord.STAGING:
        return _ended(outcome, UNDER_WAY, f"it is being built: {fact.rest}", unknown=True)
    if fact.word is RuntimeWord.FAILED:
        code, _, message = fact.rest.partition(": ")
        is_known = code in CODES and code.startswith(OF_BUILDS)
        return _ended(outcome, code if is_known else NOT_INSTALLED, message or fact.rest)
    told = f"it shows as {fact.text}" if fact.text else "nobody can say what has become of it"
    return _ended(outcome, CUT_SHORT, told, unknown=not fact.text)


def _at_work(step: Step, seen: Observation | None) -> tuple[str, str] | None:
    """The phase of a build, as far as it is one of those there are, and what is being built."""
    fact = _fact(step, seen)
    if fact.word is not RuntimeWord.STAGING:
        return None
    phase = fact.rest if fact.rest in BUILD else BUILD[0]
    return phase, _named(step)


def _fact(step: Step, seen: Observation | None) -> RuntimeFact:
    if not isinstance(step.item, BundleItem):
        return RuntimeFact(text="")
    named = (seen.facts.platform if seen and seen.facts else None) or {}
    return read_runtime(named.get(runtime_key(step.item.bundle, step.item.version), ""))


def _named(step: Step) -> str:
    """What is being built, as people call it."""
    return f"{step.item.bundle} {step.item.version}" if isinstance(step.item, BundleItem) else ""


def _ended(outcome: StepOutcome, code: str, why: str, *, unknown: bool = False) -> StepOutcome:
    step = outcome.step
    problem = Problem(
        code=code,
        message=f"{_named(step)} on {step.node}: {why}",
        hint="look again: gpuaas apply" if code == UNDER_WAY else f"gpuaas runbook {code}",
        ref=str(step.ref),
        severity=Severity.WARNING if code == UNDER_WAY else Severity.ERROR,
    )
    return replace(outcome, ok=False, unknown=unknown, problem=problem)
