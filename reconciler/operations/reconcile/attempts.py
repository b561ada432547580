"""Attempts of one round: what failed and when it is tried again, what is well again.

A change that failed of late waits for its time, and so does all that a host would have to do which
does not answer. Nobody else waits.
"""

from __future__ import annotations

from dataclasses import field

from reconciler.model.plan import Action, Cause, Change, Plan
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.operations.application import Applied
from reconciler.operations.observing import SILENT
from reconciler.operations.reconcile.rounds import Failed, Memory

UPKEEP = frozenset({Action.REPAIR})
GIVEN = frozenset({Cause.EXPIRED, Cause.CONSENTED})


@dataclass(slots=True, kw_only=True)
class Attempts:
    memory: Memory
    failures: list[Failed] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)
    contested: list[str] = field(default_factory=list)

    def postponed(self, plan: Plan, stale: Problem | None) -> dict[object, str]:
        """Active changes that failed of late, or are for hosts that do not answer.

        While nothing new is to be begun, all that is not upkeep too.
        """
        waits = self.memory.pace.waiting(self.memory.clock())
        nodes: dict[object, set[str]] = {}
        revoking = {step.ref for step in plan.steps if step.revokes}
        for step in plan.steps:
            nodes.setdefault(step.ref, set()).add(f"node/{step.node}")
        found: dict[object, str] = {}
        for change in plan.active:
            ref, name = change.ref, str(change.ref)
            away = nodes.get(ref, set()) & waits.keys()
            if stale and not (_is_upkeep(change) or ref in revoking):
                found[ref] = stale.code
            elif away:
                found[ref] = waits[min(away)].why
            elif name in waits and ref not in revoking:
                found[ref] = waits[name].why
        return found

    def judge(self, applied: Applied) -> None:
        for change in applied.done:
            self.succeed(str(change.ref))
            if change.action is Action.REPAIR and self.memory.pace.repaired(
                str(change.ref), self.memory.clock(), self.memory.chance
            ):
                self.contested.append(str(change.ref))
        wrong: dict[str, Problem] = {}
        for outcome in applied.wrong:
            problem = outcome.problem
            if problem is None or problem.code == "interrupted":
                continue
            silent = problem.code in SILENT
            name = f"node/{outcome.step.node}" if silent else str(outcome.step.ref)
            wrong.setdefault(name, problem)
        for name, problem in wrong.items():
            self.fail(name, problem.code, problem.message)

    def fail(self, name: str, code: str, message: str) -> None:
        now = self.memory.clock()
        wait = self.memory.pace.failed(name, code, now, self.memory.chance)
        self.failures.append(
            Failed(
                name=name,
                code=code,
                message=message,
                retry_seconds=round(wait.until - now),
                count=wait.count,
            )
        )

    def succeed(self, name: str) -> None:
        if self.memory.pace.succeeded(name) is not None:
            self.recovered.append(name)


def _is_upkeep(change: Change) -> bool:
    """What keeps things as they were applied, and ends that people were told of."""
    return change.action in UPKEEP or change.cause in GIVEN
