"""What may be written down of the changes of a plan, and when each counts as done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field

from reconciler.model.host.evidence import Proof
from reconciler.model.plan.plan import Action, Change, Order, Step
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded
from reconciler.operations.apply.handlers import handler_of
from reconciler.operations.apply.wave.proofs import blocked


@dataclass(slots=True, kw_only=True)
class Settlement:
    """`settled` are changes that are done, `failed` those whose places stay blocked."""

    recorded: list[Recorded] = field(default_factory=list)
    forgotten: list[Ref] = field(default_factory=list)
    renamed: list[tuple[Ref, Recorded]] = field(default_factory=list)
    settled: list[Change] = field(default_factory=list)
    failed: set[Ref] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """How far a plan has come: its `steps` by id, what came of them, and refs that have `failed`.

    `record` says as what a change is written down.
    """

    steps: Mapping[str, Step]
    outcomes: Mapping[str, StepOutcome]
    failed: Collection[Ref]
    record: Callable[[Change], Recorded]

    def recorded_first(self, change: Change) -> bool:
        """Whether what it says is fixed before any host begins; what stands where, hosts tell."""
        steps = (self.steps.get(step) for step in change.steps)
        return any(handler_of(step).recorded_first for step in steps if step is not None)

    def without_hosts(self, changes: Iterable[Change]) -> Settlement:
        """Changes without work on hosts."""
        made = Settlement()
        for change in changes:
            if change.action is Action.FORGET:
                made.forgotten.append(change.ref)
            elif change.former is not None:
                made.renamed.append((change.former, self.record(change)))
            else:
                made.recorded.append(self.record(change))
            made.settled.append(change)
        return made

    def settle(self, changes: Iterable[Change], proofs: Sequence[Proof]) -> Settlement:
        """What may be written down of the changes whose last step has ended.

        A replace is written down as soon as its new place stands: whatever becomes of the old one,
        or of this run, nobody may take what somebody uses by now for the rest of a failure.
        """
        made = Settlement()
        for change in changes:
            if any(step not in self.outcomes for step in change.steps):
                made.recorded += [self.record(change)] if self._has_moved(change) else []
                continue
            has_failed = change.ref in self.failed
            if not self.recorded_first(change):
                ending = self._ending(change)
                unproved = [p for p in proofs if p.allocation_id in ending and not p.passed]
                if unproved:
                    made.problems.append(blocked(change, unproved))
                    made.failed.add(change.ref)
                if change.action is Action.RELEASE and not change.undo_minutes:
                    made.forgotten.append(change.ref)
                elif not has_failed or unproved:
                    made.recorded.append(self.record(change))
                has_failed = has_failed or bool(unproved)
            if not has_failed:
                made.settled.append(change)
        return made

    def _has_moved(self, change: Change) -> bool:
        """Whether a replace has provided its new place."""
        provided = (s.id for s in self._steps_of(change) if s.order is not Order.RETIRE)
        return change.action is Action.REPLACE and all(
            step in self.outcomes and self.outcomes[step].ok for step in provided
        )

    def _ending(self, change: Change) -> set[str]:
        """Ids of the allocations that this change gives up."""
        retiring = (s.item for s in self._steps_of(change) if s.order is Order.RETIRE)
        return {item.allocation_id for item in retiring if item.allocation_id is not None}

    def _steps_of(self, change: Change) -> list[Step]:
        return [self.steps[step] for step in change.steps]
