"""Receipts: what a host answered, read strictly and step by step; no answer is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.hosts.ansible.events import Played, TaskResult
from reconciler.hosts.host_codes import HOST_CODES
from reconciler.hosts.ssh.ssh import why_not_begun, why_not_reached
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import HostWork, Receipt
from reconciler.model.problem import Problem

KEYS = {"step", "ref", "verb", "changed", "ok", "evidence", "problem"}
NO_ANSWER = {
    "successful": ("play_incomplete", "the run ended well and says nothing of this host"),
    "timeout": ("host_timeout", "the run was ended after its time"),
    "killed": ("interrupted", "the run was ended on request"),
}
EXCERPT = 2000


def receipts_of(work: HostWork, played: Played) -> tuple[Receipt, ...]:
    """One for each step of the work, in its order, whatever the run's own status is."""
    answer = played.answers.get(work.host.node)
    log = played.log_of(work.host.node)[-EXCERPT:]
    if answer is None:
        code, message = NO_ANSWER.get(
            played.status, ("ansible_failed", "the run ended without an answer of this host")
        )
        return _all(work, code, message, log=log)
    if answer.outcome == "unreachable":
        code, message = why_not_reached(work.host, _said(answer))
        return _all(work, code, message, log=log)
    if answer.outcome == "invalid":
        return _all(work, "host_answer_invalid", _said(answer), log=log)
    if answer.outcome == "again":
        message = "it ended more than one task of a play of one"
        return _all(work, "ansible_failed", message, log=log)
    receipts = answer.result.get("receipts")
    if not isinstance(receipts, list):
        return _refused(work, answer, log)
    if len(receipts) > len(work.steps) or not {step.id for step in work.steps}.issuperset(
        map(_step_of, receipts)
    ):
        message = "there are receipts for work that nobody asked for"
        return _all(work, "host_answer_invalid", message, log=log)
    return tuple(_receipt(step, receipts, log) for step in work.steps)


def _refused(work: HostWork, answer: TaskResult, log: str) -> tuple[Receipt, ...]:
    """A host that says why it touched nothing is believed in that; any other is unknown."""
    code = answer.result.get("code")
    if answer.outcome == "failed" and isinstance(code, str) and code in HOST_CODES:
        return _all(work, code, _said(answer), unknown=False)
    shell = str(answer.result.get("module_stderr", "")).strip() or _said(answer)
    if answer.outcome == "failed" and (why := why_not_begun(work.host, shell)):
        return _all(work, *why, unknown=False)
    if answer.outcome == "failed":
        return _all(work, "ansible_failed", _said(answer), log=log)
    return _all(work, "receipt_missing", "the host answered without receipts", log=log)


def _receipt(step: Step, answers: list[Any], log: str) -> Receipt:
    mine = [answer for answer in answers if _step_of(answer) == step.id]
    if not mine:
        return failure(step, "receipt_missing", "the host said nothing about this step")
    if len(mine) > 1 or not _is_sound(step, mine[0]):
        return failure(step, "host_answer_invalid", "the receipt is not what a host may answer")
    told = mine[0]
    dropped = plain(", ".join(sorted(key[:40] for key in set(told) - KEYS)[:20]))
    problem = told["problem"]
    return Receipt(
        step=step.id,
        node=step.node,
        verb=step.verb,
        ok=told["ok"],
        changed=told["changed"],
        evidence={plain(key): fact and _words(fact) for key, fact in told["evidence"].items()},
        problem=_problem(step, problem) if problem else None,
        log=f"unknown keys dropped: {dropped}" if dropped else _beside(told) if told["ok"] else log,
    )


def _beside(told: Mapping[str, Any]) -> str:
    """What it says besides of paths, which are looked at anyhow: a GPU that was reset, or not."""
    said = sorted((key, fact) for key, fact in told["evidence"].items() if not key.startswith("/"))
    return "; ".join(plain(f"{key}: {fact}") for key, fact in said)[:EXCERPT]


def _step_of(receipt: object) -> str:
    """Empty, which is no step's id, for what is no receipt at all."""
    step = receipt.get("step") if isinstance(receipt, dict) else None
    return step if isinstance(step, str) else ""


def _is_sound(step: Step, told: Mapping[str, Any]) -> bool:
    """Whether a receipt has the right types, is about this step, and does not contradict itself."""
    evidence, problem = told.get("evidence"), told.get("problem")
    return (
        told.keys() >= KEYS
        and (told["verb"], told["ref"]) == (step.verb, str(step.ref))
        and isinstance(told["ok"], bool)
        and isinstance(told["changed"], bool)
        and isinstance(evidence, dict)
        and all(isinstance(fact, str | None) for fact in evidence.values())
        and told["ok"] is (problem is None)
        and (problem is None or (isinstance(problem, dict) and _is_problem(problem)))
    )


def _is_problem(problem: Mapping[str, object]) -> bool:
    return all(isinstance(problem.get(key), str) for key in ("code", "message"))


def _problem(step: Step, told: Mapping[str, Any]) -> Problem:
    code = told["code"] if told["code"] in HOST_CODES else "verb_failed"
    return Problem(code=code, message=f"{step.node}: {plain(told['message'])}", ref=str(step.ref))


def _said(answer: TaskResult) -> str:
    return str(answer.result.get("msg", "no reason given"))


def plain(text: str) -> str:
    """A host's words, fit for a terminal and a line."""
    return _words(text)[:500].strip()


def _words(text: str) -> str:
    """What can be shown and written down: half a character can be neither."""
    return "".join(char if char.isprintable() else " " for char in text[:EXCERPT])


def _all(
    work: HostWork, code: str, message: str, *, unknown: bool = True, log: str = ""
) -> tuple[Receipt, ...]:
    said = plain(message)
    return tuple(failure(step, code, said, unknown=unknown, log=log) for step in work.steps)


def failure(step: Step, code: str, message: str, *, unknown: bool = True, log: str = "") -> Receipt:
    """A step that was not done, or of which nobody knows whether it was."""
    return Receipt(
        step=step.id,
        node=step.node,
        verb=step.verb,
        ok=False,
        unknown=unknown,
        problem=Problem(code=code, message=f"{step.node}: {message}", ref=str(step.ref)),
        log=log,
    )
