"""Attempts of one round: what failed, when it is tried again, and what has recovered.

A name fails once in a round, however many met with it, and has not failed where it answered last.
"""

from __future__ import annotations

from dataclasses import field

from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.operations.apply.application import Applied
from reconciler.operations.observe import SILENT
from reconciler.operations.rounds.rounds import Failed, Memory


@dataclass(slots=True, kw_only=True)
class Attempts:
    memory: Memory
    failures: list[Failed] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)
    contested: list[str] = field(default_factory=list)

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
        if any(one.name == name for one in self.failures):
            return
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
        self.failures = [one for one in self.failures if one.name != name]
        if self.memory.pace.succeeded(name) is not None:
            self.recovered.append(name)
