"""Proofs of a wave: what hosts show of released slots, host by host as they finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from reconciler.kinds.node.spec import NODES
from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.host.evidence import Check, CheckResult, Observation, Proof
from reconciler.model.plan.plan import Action, Change, Order, Plan, Step
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.apply.wave.work import Worked
from reconciler.planner.proof.checks import Inventory
from reconciler.planner.proof.refusal import let_go
from reconciler.planner.proof.rules import inventory_of, prove, roots_on

Work = tuple[list[Step], list[Claim]]
"""What was planned of one allocation, and what it holds."""

COMING = frozenset({Action.CREATE, Action.REPLACE})


@dataclass(slots=True, kw_only=True)
class WaveProofs:
    """`now` is the world after the wave's intent was written, `before` the one of the plan.

    `made` holds all proofs of the wave so far.
    """

    desired: Desired
    before: World
    now: World
    made: list[Proof] = field(default_factory=list)
    works: dict[str, Work] = field(default_factory=dict)
    coming: dict[str, Ref] = field(default_factory=dict)

    def prove(
        self, steps: Sequence[Step], seen: Mapping[str, Observation], at: str
    ) -> tuple[Proof, ...]:
        """The proofs of the hosts of these steps; none where nothing is given up."""
        found: list[Proof] = []
        for node in sorted({step.node for step in steps}):
            claims = self.now.claims_on(node)
            if all(claim.state is ClaimState.HELD for claim in claims):
                continue
            answer = seen.get(node)
            own = [step for step in steps if step.node == node]
            found += prove(claims, own, answer, at, self._inventory(node, answer))
        self.made += found
        return tuple(found)

    def untouched(
        self, plan: Plan, before: Mapping[str, StepOutcome], worked: Worked, at: str
    ) -> tuple[dict[str, Ref], tuple[Proof, ...]]:
        """Allocations that a host refused without a trace, and the proofs that it has nothing of
        them.

        `before` is the outcome of earlier steps.
        """
        refused = {
            id
            for o in worked.judged
            if not o.ok and o.step.order is not Order.RETIRE and (id := o.step.item.allocation_id)
        }
        if not refused:
            return {}, ()
        own = self.works or self._index(plan)
        coming = self.coming
        now = {one.step.id: one for one in worked.judged}
        proofs: list[Proof] = []
        for id in sorted(refused & coming.keys()):
            steps, claims = own[id]
            told = (now.get(step.id) or before.get(step.id) for step in steps)
            outcomes = [outcome for outcome in told if outcome is not None]
            proofs += let_go(claims, (steps, outcomes), worked.seen.get(steps[0].node), at)
        return {p.allocation_id: coming[p.allocation_id] for p in proofs}, tuple(proofs)

    def _index(self, plan: Plan) -> Mapping[str, Work]:
        """Proofs by allocation; made once a wave, and only where a host has refused one."""
        self.coming = {c.allocation_id: c.ref for c in plan.active if c.action in COMING}
        for step in plan.steps:
            if (id := step.item.allocation_id) is not None:
                self.works.setdefault(id, ([], []))[0].append(step)
        for claim in self.now.claims:
            if claim.allocation_id in self.works:
                self.works[claim.allocation_id][1].append(claim)
        return self.works

    def _inventory(self, node: str, seen: Observation | None) -> Inventory:
        """The devices of slots: under a claim they stay as they are recorded."""
        ref = Ref("node", "", node)
        source = self.before.recorded.get(ref) or self.desired.resources.get(ref)
        gpus = (seen.facts.gpus if seen and seen.facts else None) or ()
        idle = {gpu.uuid: self.now.idle_mib.get((gpu.uuid, gpu.driver or "")) for gpu in gpus}
        return inventory_of(
            NODES.spec(source).slots if source else (),
            {uuid: mib for uuid, mib in idle.items() if mib is not None},
            roots_on(node, self.desired, self.now),
        )


LEFT = "see that it is nobody else's, remove it there, then: gpuaas cleanup retry, or gpuaas apply"


UNSEEN = "see why nobody could look, then: gpuaas cleanup retry, or gpuaas apply"


def blocked(change: Change, unproved: Sequence[Proof]) -> Problem:
    """Why slots stay blocked: the checks that did not pass, with what was measured."""
    failing: list[Check] = [
        check
        for proof in unproved
        for check in proof.checks
        if check.result is not CheckResult.PASS
    ]
    told = ", ".join(dict.fromkeys(f"{c.name} {c.result.value} ({c.value})" for c in failing))
    where = ", ".join(sorted(f"{p.node}/{p.slot or '*'}" for p in unproved))
    return Problem(
        code="cleanup_blocked",
        message=f"{where} stays blocked: {told or 'nothing could be measured'}",
        hint=LEFT if any(c.result is CheckResult.FAIL for c in failing) else UNSEEN,
        ref=str(change.ref),
    )
