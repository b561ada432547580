"""Which steps of a wave may be begun after all that has failed before them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from reconciler.model.plan.plan import Order, Step, Wave
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.operations.apply.handlers import is_slow, readies
from reconciler.operations.apply.wave.outcomes import has_harmed, not_tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """The steps that may be begun, and what those that may not have ruled out.

    `unready` are nodes that are not to take tenants, and whose failure that is.
    """

    steps: tuple[Step, ...]
    failed: frozenset[Ref]
    unready: Mapping[str, StepOutcome]
    problems: tuple[Problem, ...]


def possible(
    wave: Wave,
    outcomes: Iterable[StepOutcome],
    failed: Collection[Ref],
    unready: Mapping[str, StepOutcome],
) -> Possible:
    """The wave's steps without those that an earlier failure rules out.

    On a host that is not ready for tenants nobody is placed. Where preparing has done harm to one,
    no other is tried; a host that was refused as it is holds up nobody.
    """
    broken = [o for o in outcomes if readies(o.step) and not o.ok]
    unready = {**unready, **{outcome.step.node: outcome for outcome in broken}}
    harmed = next(filter(has_harmed, broken), None)
    ruled_out = set(failed)
    left, problems = [], []
    for step in wave.steps:
        if step.ref in ruled_out:
            continue
        if readies(step) and harmed is not None:
            unready[step.node] = harmed
        cause = unready.get(step.node)
        if cause is None or step.order is Order.RETIRE:
            left.append(step)
        else:
            # Whom one host cannot serve, others may: what is slow is done on each by itself.
            ruled_out.update(() if is_slow(step) else (step.ref,))
            why = f"{cause.step.node} could not be made ready for tenants"
            problems.append(not_tried(step, why))
    return Possible(
        steps=tuple(step for step in left if step.ref not in ruled_out),
        failed=frozenset(ruled_out),
        unready=unready,
        problems=tuple(problems),
    )
