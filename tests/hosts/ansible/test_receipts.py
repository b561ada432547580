"""What becomes of each way in which a host can answer, or not answer, for its steps."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from reconciler.hosts.ansible.events import Played, TaskResult
from reconciler.hosts.ansible.receipts import receipts_of
from reconciler.hosts.host_codes import HOST_CODES
from reconciler.model.codes import CODES
from reconciler.model.plan.work import HostWork, Receipt
from reconciler.planner.proof.verify_step import judge
from tests.harness.directory_host import PLAYBOOKS, REF, RELEASE, host, step

STEP = step("allocation.release", RELEASE)
WORK = HostWork(host=host(Path("/root")), steps=(STEP,))
SOUND: dict[str, Any] = {
    "step": STEP.id,
    "ref": str(REF),
    "verb": STEP.verb,
    "changed": True,
    "ok": True,
    "evidence": {"/home/train-a-abcd": None},
    "problem": None,
}
FAILED = {**SOUND, "ok": False, "problem": {"code": "path_not_removed", "message": "busy"}}


def receipt(result: dict[str, Any], outcome: str = "ok", status: str = "successful") -> Receipt:
    answers = {"gpu01": TaskResult(outcome=outcome, result=result)}
    logs = {"gpu01": "the log", "gpu02": "of another host"}
    played = Played(status=status, answers=answers, log="of all hosts", logs=logs)
    (only,) = receipts_of(WORK, played)
    return only


def code_of(one: Receipt) -> str:
    assert one.problem is not None and one.problem.message.startswith("gpu01: ")
    return one.problem.code


def test_a_sound_receipt_is_taken() -> None:
    taken = receipt({"receipts": [SOUND]})
    assert (taken.ok, taken.changed, taken.unknown, taken.problem) == (True, True, False, None)
    assert taken.evidence == SOUND["evidence"]


def test_what_a_host_says_besides_of_paths_is_kept_for_people() -> None:
    """A card that could not be reset is said, and is nothing that counts for or against a step."""
    evidence = {"/x": None, "gpu GPU-b": "reset", "gpu GPU-a": "not reset: busy\x1b[2J"}
    taken = receipt({"receipts": [{**SOUND, "evidence": evidence}]})
    assert (taken.ok, taken.log) == (True, "gpu GPU-a: not reset: busy [2J; gpu GPU-b: reset")


def test_what_a_host_says_as_evidence_can_be_shown_and_written_down() -> None:
    """One receipt with half a character would else end the whole apply when it is recorded."""
    said = "\ud800\x1b[2Jx\n" + "y" * 9000
    taken = receipt(
        {"receipts": [{**SOUND, "evidence": {said: said, "removed": said, "/x": None}}]}
    )
    texts = (*taken.evidence, *filter(None, taken.evidence.values()), taken.log)
    assert taken.ok and all(text.isprintable() and len(text) <= 2000 for text in texts)
    assert judge(STEP, taken, None).log.splitlines()[-1].startswith("removed:   [2Jx y")


def test_a_failed_receipt_carries_its_reason_and_the_log() -> None:
    taken = receipt({"receipts": [FAILED]}, outcome="failed", status="failed")
    assert (taken.ok, taken.unknown, code_of(taken), taken.log) == (
        False,
        False,
        "path_not_removed",
        "the log",
    )


@pytest.mark.parametrize("status", ["successful", "failed", "timeout", "killed", "broken"])
def test_the_host_decides_and_not_the_run(status: str) -> None:
    """F-ANS-02: a receipt counts, and a missing one does, whatever the run as a whole is called."""
    assert receipt({"receipts": [SOUND]}, status=status).ok
    assert not receipt({"receipts": []}, status=status).ok


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("successful", "play_incomplete"),
        ("failed", "ansible_failed"),
        ("broken", "ansible_failed"),
        ("timeout", "host_timeout"),
        ("killed", "interrupted"),
    ],
)
def test_a_host_that_is_not_in_the_run_is_unknown(status: str, code: str) -> None:
    """F-ANS-02: nothing matched, or fewer hosts than planned, is no success."""
    (one,) = receipts_of(WORK, Played(status=status, answers={}, log="the log"))
    assert (one.ok, one.unknown, code_of(one), one.log) == (False, True, code, "the log")


@pytest.mark.parametrize(
    ("outcome", "result", "code", "unknown"),
    [
        ("unreachable", {"msg": "No route to host"}, "host_unreachable", True),
        ("ok", {}, "receipt_missing", True),
        ("ok", {"receipts": {}}, "receipt_missing", True),
        ("ok", {"receipts": []}, "receipt_missing", True),
        ("again", {"receipts": [SOUND]}, "ansible_failed", True),
        ("ok", {"receipts": [{**SOUND, "step": "other"}]}, "host_answer_invalid", True),
        ("ok", {"receipts": [SOUND, {**SOUND, "step": "other"}]}, "host_answer_invalid", True),
        ("ok", {"receipts": [SOUND, "and more"]}, "host_answer_invalid", True),
        ("ok", {"receipts": ["no receipt"]}, "host_answer_invalid", True),
        ("ok", {"receipts": [SOUND, SOUND]}, "host_answer_invalid", True),
        ("ok", {"receipts": [{**SOUND, "ok": "yes"}]}, "host_answer_invalid", True),
        ("ok", {"receipts": [{**SOUND, "verb": "access.sync"}]}, "host_answer_invalid", True),
        ("ok", {"receipts": [{**SOUND, "evidence": {"/a": 1}}]}, "host_answer_invalid", True),
        ("ok", {"receipts": [{**SOUND, "ok": False}]}, "host_answer_invalid", True),
        ("ok", {"receipts": [{**FAILED, "problem": {"code": 1}}]}, "host_answer_invalid", True),
        ("failed", {"msg": "MODULE FAILURE"}, "ansible_failed", True),
        ("failed", {"msg": "x", "code": "no such code"}, "ansible_failed", True),
        (
            "failed",
            {"msg": "other", "code": "host_identity_changed"},
            "host_identity_changed",
            False,
        ),
    ],
)
def test_no_other_answer_is_ok(
    outcome: str, result: dict[str, Any], code: str, unknown: bool
) -> None:
    one = receipt(result, outcome=outcome)
    assert (one.ok, code_of(one), one.unknown) == (False, code, unknown)


OURS = ("interrupted", "held_for_approval", "usage", "plan_blocked", "state_locked")


@pytest.mark.parametrize("code", OURS)
def test_a_host_does_not_say_what_we_decide(code: str) -> None:
    """By its word a failed apply would end as one that waits for a consent, or was stopped."""
    told = {**FAILED, "problem": {"code": code, "message": "x"}}
    assert code_of(receipt({"receipts": [told]})) == "verb_failed"
    refused = receipt({"msg": "x", "code": code}, outcome="failed")
    assert (code_of(refused), refused.unknown) == ("ansible_failed", True)


def test_what_a_host_may_say_is_what_its_code_can_say() -> None:
    said = set()
    for file in (PLAYBOOKS / "module_utils/gpuaas").glob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        said |= {one.value for one in nodes if isinstance(one, ast.Constant)} & CODES.keys()
    assert said == HOST_CODES


def test_keys_that_nobody_agreed_on_are_dropped_and_told() -> None:
    """PLC-19: a host adds nothing to a receipt."""
    taken = receipt({"receipts": [{**SOUND, "gpu": "free"}]})
    assert taken.ok and taken.log == "unknown keys dropped: gpu"


def test_a_hosts_words_cannot_steer_a_terminal() -> None:
    told = {**FAILED, "problem": {"code": "made_up", "message": "\x1b[2Jx\n" + "y" * 900}}
    taken = receipt({"receipts": [told]})
    assert code_of(taken) == "verb_failed"
    assert taken.problem is not None and taken.problem.message.isprintable()
    assert len(taken.problem.message) < 600
