"""Repair: what the platform made and a host shows otherwise is made again, and nothing else.

Only what the platform made is put right. What a person has chosen in a folder of their own, what
somebody has accepted, and what the policy leaves alone, is taken out of the work that goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.kinds.contract import Context
from reconciler.model.host.facts.path_fact import shown
from reconciler.model.plan.drift import Becomes, Drift
from reconciler.model.plan.plan import Step
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded
from reconciler.planner.changes.stale import Stale, binding_of, staying
from reconciler.planner.core.difference import Difference


def with_repairs(
    stale: Mapping[Ref, Stale],
    drifts: Iterable[Drift],
    context: Context,
    changed: Mapping[Ref, Difference],
) -> Mapping[Ref, Stale]:
    """The stale allocations, and every other one whose host shows it otherwise."""
    by_ref: dict[Ref, list[Drift]] = {}
    for one in drifts:
        if one.becomes is not Becomes.UNCHECKED:
            by_ref.setdefault(one.ref, []).append(one)
    found = dict(stale)
    for recorded, resource in staying(context, changed, by_ref):
        drifted = tuple(by_ref[recorded.ref])
        known = found.get(resource.ref)
        if known is not None:
            found[resource.ref] = replace(known, drifted=drifted)
        elif any(one.becomes is Becomes.REPAIRED for one in drifted):
            binding = binding_of(recorded, resource, context.world)
            found[resource.ref] = Stale(
                binding=binding,
                resource=resource,
                basis=recorded.basis,
                drifted=drifted,
                only_drifted=True,
            )
    return found


def mends(step: Step, drifted: Iterable[Drift]) -> bool:
    """Whether this step makes anything that needs repair."""
    return any(one.becomes is Becomes.REPAIRED and one.key in step.expected for one in drifted)


def sparing(step: Step, recorded: Recorded, drifted: Iterable[Drift]) -> Step:
    """The step without what its host already shows as it was made.

    Facts that are no path go with their step: none of them can be left out.
    """
    spared = {
        one.key
        for one in drifted
        if one.becomes is not Becomes.REPAIRED
        and step.expected.get(one.key, "") == recorded.facts.get(one.key)
    }
    if not spared & step.expected.keys():
        return step
    return replace(
        step,
        item=step.item.without(lambda path: shown(path) in spared),
        expected={key: fact for key, fact in step.expected.items() if key not in spared},
    )


def told(drifted: Iterable[Drift]) -> Mapping[str, str]:
    """What is repaired, as a fact of the plan."""
    texts = [one.text for one in drifted if one.becomes is Becomes.REPAIRED]
    return {"drift": "; ".join(texts)} if texts else {}
