"""Absence in whole walks: what git does not say was removed stays, whoever approves what."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.applied_fleet import BO, BOX, GRANTS, TRAIN
from tests.harness.yard import Yard
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

BOX_REF = "allocation/nlp/box"
GRANT_REF = f"grant/vision/{GRANTS[0]['metadata']['name']}"


def git(yard: Yard, *words: str) -> str:
    return subprocess.check_output(["git", "-C", yard.folder, *words], text=True).strip()


def test_a_deleted_file_is_held_until_it_is_committed(yard: Yard) -> None:
    """F-REAL-01: named, for one of them; then committed, for the other."""
    yard.commit()
    before = yard.keys(SOLO_REF)
    for one in (BOX, GRANTS[0]):
        yard.file(one).unlink()
    held = yard.apply()
    assert (held.code, held.blocked) == (
        5,
        {BOX_REF: "removal_uncommitted", GRANT_REF: "removal_uncommitted"},
    )
    assert yard.keys(SOLO_REF) == before
    named = yard.plan(f"--uncommitted-removals={BOX_REF}")
    assert (named.actions[BOX_REF], named.blocked) == (
        "release",
        {GRANT_REF: "removal_uncommitted"},
    )
    assert not yard.plan("--uncommitted-removals").blocked
    yard.commit()
    done = yard.apply("--auto-approve=safe")
    assert (done.code, done.blocked) == (5, {BOX_REF: "held_for_approval"})
    assert yard.keys(SOLO_REF) != before


def test_what_git_hides_lets_everybody_stay(yard: Yard) -> None:
    """F-REAL-01: people are let in, and allocations stay, as they were applied."""
    yard.commit()
    before = yard.keys(SOLO_REF), yard.keys(TRAIN_REF)
    for one in (BO, BOX, TRAIN, *GRANTS):
        git(yard, "update-index", "--skip-worktree", str(yard.file(one)))
        yard.file(one).unlink()
    hidden = yard.apply()
    assert "specs_hidden" in hidden.problems
    assert {BOX_REF, TRAIN_REF, GRANT_REF, "user/bo"} <= hidden.blocked.keys()
    assert (yard.keys(SOLO_REF), yard.keys(TRAIN_REF)) == before
    assert yard.recorded(BOX_REF).phase == "active"


def test_apply_waits_for_git_and_then_refuses(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-01: a plan says so, and an apply does nothing."""
    monkeypatch.setattr("reconciler.operations.specs.PATIENCE_SECONDS", 0.1)
    yard.commit()
    lock = Path(yard.folder, ".git/index.lock")
    lock.touch()
    refused = yard.apply()
    assert (refused.code, refused.problems) == (1, ["git_under_way"])
    assert "git_under_way" in yard.plan().problems
    lock.unlink()
    assert "git_under_way" not in yard.apply().problems


def test_many_people_who_vanish_stay(yard: Yard) -> None:
    """F-REAL-02: in one commit, which a merge may have made; a word shuts out at once."""
    guard = {"maxRemovals": 1, "maxRemovalPercent": 1}
    yard.write(paper.policy(guard=guard, grant={"mayBeOpenEnded": True}))
    yard.commit()
    assert yard.apply().code == 0
    before = yard.keys(SOLO_REF)
    yard.remove(*GRANTS)
    yard.commit()
    held = yard.apply()
    assert (held.code, set(held.blocked.values())) == (5, {"revocations_guard"})
    assert yard.keys(SOLO_REF) == before
    doctor = yard.gpuaas("doctor")
    assert (doctor.code, doctor.document["result"][0]["code"]) == (3, "revocations_guard")
    needs = yard.gpuaas("status").document["result"]["needsYou"]
    assert "revocations_guard" in {need["code"] for need in needs}
    assert yard.apply("--only", GRANT_REF).code == 0
    assert yard.keys(SOLO_REF) != before
