"""Reboots: hosts that were told to restart are observed until they show another boot.

Only a new boot id together with everything that was expected counts as back. Silence, errors and
the boot before are waited out, up to a limit; a host that comes back as somebody else is not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import Host, StepOutcome
from reconciler.model.problem import Problem, Severity
from reconciler.model.records import dataclass
from reconciler.planner.core.facts import differing

BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOT_BACK, UNDER_WAY = "host_did_not_return", "restart_under_way"


class RebootState(StrEnum):
    """What one look says of a host that was told to reboot."""

    DOWN = "down"
    """It does not answer, or what answers is nothing that a host says."""
    BEFORE = "before"
    """It answers, and is still in the boot that it was to leave."""
    STARTING = "starting"
    """It is in another boot, and does not show yet all that it should."""
    BACK = "back"
    CHANGED = "changed"
    """It is another one: no key and no machine is believed because of a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """A host that was told to leave the boot of its evidence, and the step that told it."""

    host: Host
    step: Step

    def judge(self, seen: Observation) -> RebootState:
        if seen.problem == "host_identity_changed":
            return RebootState.CHANGED
        if seen.facts is None or not BOOT_ID.fullmatch(seen.facts.boot_id):
            return RebootState.DOWN
        if seen.facts.boot_id == self.host.boot_id:
            return RebootState.BEFORE
        return (
            RebootState.STARTING
            if any(differing(seen.facts, self.step.expected))
            else RebootState.BACK
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebootPatience:
    """How long to wait: `limit` for all of it, `settle` for what a host that is up still has to
    start.
    """

    limit: float = 900.0
    settle: float = 120.0
    between: float = 2.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


Look = Callable[[Sequence[Host]], Mapping[str, Observation]]

ENDINGS: Mapping[RebootState, str] = {
    RebootState.DOWN: "it does not answer",
    RebootState.BEFORE: "it answers, and is still in the boot that it was to leave",
}


def await_boots(
    boots: Collection[Boot], look: Look, stop: Callable[[], bool], patience: RebootPatience
) -> dict[str, Observation]:
    """Wait for hosts that reboot, and return the last look at each by node.

    The wait for a host ends when it is back or is another one. If somebody wants to `stop`, the
    remaining hosts are left out: the next look finds out about them.
    """
    began, up = patience.clock(), dict[str, float]()
    waiting, found = {boot.host.node: boot for boot in boots}, dict[str, Observation]()
    while waiting and not stop():
        seen = look([boot.host for boot in waiting.values()])
        now = patience.clock()
        for node, boot in list(waiting.items()):
            if node not in seen:
                continue
            sight = boot.judge(seen[node])
            if sight is RebootState.STARTING:
                up.setdefault(node, now)
            late = now - began >= patience.limit
            settled = node in up and now - up[node] >= patience.settle
            if sight in (RebootState.BACK, RebootState.CHANGED) or (
                settled and sight is RebootState.STARTING
            ):
                found[node] = seen[node]
            elif late:
                found[node] = _given_up(seen[node], sight, patience)
            if node in found:
                del waiting[node]
        if waiting:
            patience.sleep(patience.between)
    return found


def _given_up(seen: Observation, sight: RebootState, patience: RebootPatience) -> Observation:
    """What was seen last proves nothing any more, whatever it was."""
    if sight is RebootState.STARTING:
        return seen
    said = f": {seen.message}" if seen.message else ""
    message = f"it did not come back within {patience.limit / 60:g} min; {ENDINGS[sight]}{said}"
    return replace(seen, facts=None, digest="", problem=NOT_BACK, message=message)


def under_way(step: Step) -> StepOutcome:
    """The outcome of a step whose host is going down, and which nobody waits for."""
    problem = Problem(
        code=UNDER_WAY,
        message=f"{step.node} starts anew, and nobody waits for it here",
        hint="once it is back, look and finish: gpuaas apply",
        ref=str(step.ref),
        severity=Severity.WARNING,
    )
    return StepOutcome(step=step, ok=False, changed=True, unknown=True, problem=problem)
