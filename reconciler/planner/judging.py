"""Judging: what a step has come to, by the facts read back, and whether slots were left clean.

A receipt is a host's own word. It can show that something went wrong, never that it went well;
and what could not be read proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.model.canonical import digest
from reconciler.model.capacity import Claim, ClaimState
from reconciler.model.evidence import Check, CheckResult, NodeFacts, Observation, Proof
from reconciler.model.plan import Step
from reconciler.model.problem import Problem
from reconciler.model.work import Receipt, StepOutcome
from reconciler.planner.showing import differing, is_unknown, listed, shown


def judge(step: Step, receipt: Receipt | None, observation: Observation | None) -> StepOutcome:
    """Done only if the host says so and then shows exactly what was expected."""
    if receipt is None:
        silence = _problem(step, "receipt_missing", "the host said nothing about it")
        return StepOutcome(step=step, ok=False, changed=False, unknown=True, problem=silence)
    told = _told(step, receipt)
    problem = told or _seen(step, observation)
    unseen = told is None and (observation is None or observation.facts is None)
    unknown = receipt.unknown or unseen or (problem is not None and problem.code in UNKNOWN_CODES)
    return StepOutcome(
        step=step,
        ok=problem is None,
        changed=receipt.changed,
        unknown=unknown,
        problem=problem,
        log=receipt.log,
    )


UNKNOWN_CODES = frozenset({"receipt_missing", "observation_failed", "host_unreachable"})
"""After these nobody can say what the host has done."""


def prove(
    claims: Iterable[Claim],
    steps: Sequence[Step],
    observation: Observation | None,
    at: str,
    devices: Mapping[str, str],
) -> tuple[Proof, ...]:
    """A proof for each claim that these steps of one node give up; passed only if all was seen.

    Of an allocation with an account nothing of its uid may be left anywhere on the host. `devices`
    maps the node's slots to the UUIDs of their GPUs.
    """
    facts = observation.facts if observation and not observation.problem else None
    proofs = []
    for claim in sorted(claims, key=lambda claim: claim.id):
        retiring = [s for s in steps if s.item.get("id") == claim.allocation_id]
        gone = [key for step in retiring for key, fact in step.expected.items() if fact is None]
        uids = {uid for step in retiring if (uid := step.item.get("uid"))}
        nodes = {step.node for step in retiring}
        if claim.state is ClaimState.HELD or not gone or nodes != {claim.node}:
            continue
        slots = (claim.slot,) if claim.slot is not None else tuple(devices) or ("any slot",)
        checks = (
            *_left_behind(gone, facts),
            _descriptor(claim.allocation_id, facts),
            *(_of_uid(uid, facts) for uid in sorted(uids)),
            *_processes(slots, devices, facts),
        )
        if facts is None:
            checks = (_unseen(claim.node, observation),)
        proofs.append(_proof(claim, checks, facts, at))
    return tuple(proofs)


def _told(step: Step, receipt: Receipt) -> Problem | None:
    if receipt.problem is not None:
        return receipt.problem
    return None if receipt.ok else _problem(step, "verb_failed", "the host could not do it")


def _seen(step: Step, observation: Observation | None) -> Problem | None:
    if observation is None or observation.facts is None:
        code = (observation.problem if observation else "") or "observation_failed"
        said = (observation.message if observation else "") or "no answer"
        unseen = f"{step.node}: not seen afterwards: {said}"
        return replace(_problem(step, code, ""), message=unseen)
    found = list(differing(observation.facts, step.expected))
    if unknown := [f"{key} is {seen}" for key, seen, _ in found if is_unknown(seen)]:
        return _problem(step, "observation_failed", listed(unknown, "; "))
    wrong = [f"{key} is {seen or 'absent'}, not {fact or 'absent'}" for key, seen, fact in found]
    return _problem(step, "evidence_mismatch", listed(wrong, "; ")) if wrong else None


def _problem(step: Step, code: str, message: str) -> Problem:
    return Problem(
        code=code,
        message=f"{step.verb} of {step.ref} on {step.node}: {message}",
        hint=f"gpuaas show {step.ref}",
        ref=str(step.ref),
    )


def _unseen(node: str, observation: Observation | None) -> Check:
    """Of a host that did not answer nothing was measured, which one line says better than all."""
    said = observation.message if observation else ""
    return Check(name=f"host {node}", result=CheckResult.UNKNOWN, value=said or "not seen")


def _left_behind(gone: Sequence[str], facts: NodeFacts | None) -> Iterator[Check]:
    """Every path that had to go, and whatever lies below it; and every named fact."""
    paths = (facts.paths if facts else None) or {}
    for key in sorted(gone):
        seen = shown(facts, key)
        below = sorted(found for found in paths if found.startswith(f"{key}/"))
        if is_unknown(seen):
            yield Check(name=key, result=CheckResult.UNKNOWN, value="not seen")
        elif seen is None and not below:
            yield Check(name=key, result=CheckResult.PASS, value="absent")
        else:
            named = "" if key.startswith("/") else seen
            value = listed(below) or named or "still there"
            yield Check(name=key, result=CheckResult.FAIL, value=value)


def _of_uid(uid: int, facts: NodeFacts | None) -> Check:
    """A host that could not look everywhere has not said that nothing is left."""
    name = f"left of uid {uid}"
    left = (facts.leftovers if facts else None) or {}
    if str(uid) not in left:
        return Check(name=name, result=CheckResult.UNKNOWN, value="not looked through")
    if found := left[str(uid)]:
        return Check(name=name, result=CheckResult.FAIL, value=listed(found))
    return Check(name=name, result=CheckResult.PASS, value="nothing")


def _descriptor(allocation: str, facts: NodeFacts | None) -> Check:
    found = facts.descriptors if facts else None
    if found is None:
        return Check(name="descriptor", result=CheckResult.UNKNOWN, value="not seen")
    if allocation in found:
        return Check(name="descriptor", result=CheckResult.FAIL, value="still there")
    return Check(name="descriptor", result=CheckResult.PASS, value="absent")


def _processes(
    slots: Collection[str], devices: Mapping[str, str], facts: NodeFacts | None
) -> Iterator[Check]:
    """A slot on whose GPU somebody still computes is not clean."""
    gpus = {gpu.uuid: gpu for gpu in (facts.gpus if facts else None) or ()}
    for slot in sorted(slots):
        gpu = gpus.get(devices.get(slot, ""))
        name = f"processes on {slot}"
        if gpu is None or gpu.processes is None:
            yield Check(name=name, result=CheckResult.UNKNOWN, value="GPU not seen")
        elif gpu.processes:
            yield Check(name=name, result=CheckResult.FAIL, value=listed(gpu.processes))
        else:
            yield Check(name=name, result=CheckResult.PASS, value="none")


def _proof(claim: Claim, checks: tuple[Check, ...], facts: NodeFacts | None, at: str) -> Proof:
    about = [claim.id, at, [[check.name, check.result, check.value] for check in checks]]
    return Proof(
        id=digest(about).removeprefix("sha256:")[:16],
        allocation_id=claim.allocation_id,
        node=claim.node,
        slot=claim.slot,
        at=at,
        boot_id=facts.boot_id if facts else "",
        checks=checks,
        source=facts.source if facts else "host",
    )
