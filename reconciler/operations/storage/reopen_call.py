"""The call to the host that gives files to another allocation, and its answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from reconciler.hosts.ansible.executor import run_wave
from reconciler.model.plan.work import HostProgress, HostWork, Receipt
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.state.reopening import Reopening
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import host_of, run_options
from reconciler.operations.signals import Interrupts
from reconciler.planner.storage.reopen import reopening_step

_SAID = re.compile(r"(all|more) (\d{1,18})")
MOST = 1000
"""Characters of what a host says it has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenResult:
    """`changed` counts from the beginning. `whole` is None where nobody knows what was done."""

    changed: int = 0
    left: str = ""
    whole: bool | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What each call to a host needs."""

    desired: Desired
    on_progress: Callable[[HostProgress], None]
    interrupts: Interrupts

    def to_host(self, fleet: Fleet, world: World, one: Reopening) -> ReopenResult:
        host = host_of(fleet, self.desired, world, one.node)
        if host is None:
            return ReopenResult(problem=unfinished(one, f"nobody knows how {one.node} is reached"))
        options = replace(run_options(fleet), forced=lambda: self.interrupts.forced)
        work = HostWork(host=host, steps=(reopening_step(one, world.volumes[one.storage]),))
        (receipt,) = run_wave([work], options, self.on_progress, self.interrupts)
        return _answer(one, receipt)


def unfinished(one: Reopening, why: str) -> Problem:
    return Problem(
        code="reopen_unfinished",
        message=f"{one.storage}: {why}; what {one.old.allocation_id} has left may not all be that"
        f" of {one.new.ref}",
        hint="say it again: it goes on where it was",
        ref=str(one.storage),
    )


def _answer(one: Reopening, receipt: Receipt) -> ReopenResult:
    """A host that says nothing that can be understood has said nothing."""
    if receipt.problem is not None:
        return ReopenResult(problem=receipt.problem)
    said = _SAID.fullmatch(str(receipt.evidence.get("reopened", "")))
    if said is None:
        return ReopenResult(problem=unfinished(one, f"{one.node} does not say how far it has come"))
    left = "".join(c if c.isprintable() else " " for c in str(receipt.evidence.get("left") or ""))
    return ReopenResult(changed=int(said[2]), left=left[:MOST], whole=said[1] == "all")
