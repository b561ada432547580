"""Proofs of a refusal: a host that refused an allocation has nothing of it.

The host's word alone ends nothing. It has to say that it refused, and changed nothing, and then to
show in a look of its own that none of what the allocation was to have is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from reconciler.model.host.capacity import Claim
from reconciler.model.host.evidence import Check, CheckResult, NodeFacts, Observation, Proof
from reconciler.model.plan.items.item import AllocationItem
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import StepOutcome
from reconciler.planner.core.facts import barred
from reconciler.planner.proof.checks import gone, one
from reconciler.planner.proof.rules import proof_of

Work = tuple[Sequence[Step], Sequence[StepOutcome]]
"""All that was planned of one allocation, and what came of it."""


def let_go(
    claims: Sequence[Claim], work: Work, observation: Observation | None, at: str
) -> tuple[Proof, ...]:
    """A proof for each of its claims; none at all unless every check of every one passes."""
    steps, outcomes = work
    if not steps or not any(o.problem for o in outcomes):
        return ()
    facts = observation.facts if observation and not observation.problem else None
    touched = any(o.ok or o.changed or o.unknown for o in outcomes)
    if facts is None or touched or {claim.node for claim in claims} != {s.node for s in steps}:
        return ()
    checks = tuple(_checks(steps, outcomes, facts))
    if any(check.result is not CheckResult.PASS for check in checks):
        return ()
    return tuple(proof_of(claim, checks, facts, at) for claim in claims)


def _checks(
    steps: Sequence[Step], outcomes: Iterable[StepOutcome], facts: NodeFacts
) -> Iterator[Check]:
    codes = ", ".join(dict.fromkeys(o.problem.code for o in outcomes if o.problem))
    yield one("refused", CheckResult.PASS, f"{codes}; nothing was changed")
    first = steps[0].item
    assert isinstance(first, AllocationItem)
    id, login = first.id, first.login
    uid = max(step.item.account_uid for step in steps) or None
    own = sorted({k for s in steps for k in s.expected if _is_own(k, id, login, uid)})
    # No host of ours enters what is no folder, and the descriptor would have been there first.
    reached = [key for key in own if not barred(facts, key)]
    yield gone("made", reached, facts, "nothing of it is there")
    if facts.descriptors is None:
        yield one("descriptor", CheckResult.UNKNOWN, "not seen")
    else:
        there = id in facts.descriptors
        result = CheckResult.FAIL if there else CheckResult.PASS
        yield one("descriptor", result, "there" if there else "absent")


def _is_own(key: str, id: str, login: str, uid: int | None) -> bool:
    """Whether something bears its name, its id or its uid, and is nobody else's."""
    numbered = uid is not None and f"-{uid}." in key.replace("@", "-").replace("/", "-")
    return id in key or login in key or numbered
