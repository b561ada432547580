"""Hosts that lie, fail, are away, or are left in the middle: the state stays true of them."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler import shipped
from reconciler.hosts.ansible.executor import RunOptions
from reconciler.operations.apply.wave import work
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import run_options
from tests.harness.applied_fleet import SOLO, TRAIN
from tests.harness.yard import Said, Yard, copy_of

pytestmark = [pytest.mark.walk, pytest.mark.ansible]

TRAIN_REF, SOLO_REF, BOX_REF = (
    "allocation/vision/train",
    "allocation/vision/solo",
    "allocation/nlp/box",
)

LIAR = """
import json, sys

told = [
    {key: one[key] for key in ("step", "ref", "verb")}
    | {"ok": True, "changed": True, "evidence": {}, "problem": None}
    for one in json.loads(sys.argv[1])["work"]
]
print(json.dumps({"changed": True, "receipts": told}))
"""


def outcomes_of(said: Said) -> list[dict[str, Any]]:
    outcomes: list[dict[str, Any]] = said.document["result"]["outcomes"]
    return outcomes


def test_a_module_that_lies_is_found_out(
    before: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STM-02: a receipt is never a proof; what the host shows is, and it shows nothing."""
    yard = copy_of(before, tmp_path / "yard")
    playbooks = Path(shutil.copytree(shipped.folder("playbooks"), tmp_path / "playbooks"))
    (playbooks / "module_utils/gpuaas/converge.py").write_text(LIAR)

    def lying(fleet: Fleet) -> RunOptions:
        return replace(run_options(fleet), playbooks=playbooks)

    monkeypatch.setattr(work, "run_options", lying)
    done = yard.apply()
    assert done.code == 1
    assert set(done.problems) == {"evidence_mismatch"}
    assert {(one["ok"], one["changed"]) for one in outcomes_of(done)} == {(False, True)}
    assert not [ref for ref in yard.world.recorded if ref.kind == "allocation"]
    assert len(yard.claims) == 4, "nobody else may have what may be half made"
    assert yard.rows("SELECT state, count(*) FROM step GROUP BY state") == [("failed", 9)]
    assert yard.plan().actions.keys() == {TRAIN_REF, SOLO_REF, BOX_REF}


def test_one_host_of_three_fails_and_comes_back(before: Yard, tmp_path: Path) -> None:
    """F-STA-04, PLC-06: two are recorded, the third is left, and is resumed on its own claim.

    First its last step fails, then it is away, then it is well again.
    """
    yard = copy_of(before, tmp_path)
    keys = yard.root("gpu02") / "etc/gpuaas/ssh"
    keys.parent.mkdir(parents=True)
    keys.write_text("not a folder")

    failed = yard.apply()
    assert failed.code == 1
    recorded = {str(ref) for ref in yard.world.recorded if ref.kind == "allocation"}
    assert recorded == {TRAIN_REF, BOX_REF}, failed.messages
    assert all("gpu02" in p["message"] for p in failed.document["problems"])
    assert yard.claims[f"{SOLO_REF}@gpu02/s0"] == "held"
    claimed = yard.rows("SELECT id, allocation_id FROM claim WHERE ref = ?", SOLO_REF)
    left = yard.plan("--detailed-exitcode")
    assert (left.code, left.actions) == (2, {SOLO_REF: "create"})
    assert yard.gpuaas("status").document["result"]["lastRun"]["state"] == "failed"

    with yard.away("gpu02"):
        away = yard.apply()
        assert away.code == 1
        assert "host_unreachable" in away.problems
        assert "root folder" in away.messages
        assert yard.recorded(SOLO_REF) is None
        assert yard.claims[f"{SOLO_REF}@gpu02/s0"] == "held"

    keys.unlink()
    done = yard.apply()
    assert (done.code, done.actions) == (0, {SOLO_REF: "create"})
    assert yard.rows("SELECT id, allocation_id FROM claim WHERE ref = ?", SOLO_REF) == claimed
    assert yard.recorded(SOLO_REF).id == claimed[0][1]
    assert yard.plan("--detailed-exitcode").code == 0
    assert yard.gpuaas("state", "check").code == 0


def test_a_release_waits_for_a_host_that_is_away(yard: Yard) -> None:
    """PLC-15, REL-08: not seen is not gone; the claim stays until its host has shown it."""
    yard.remove(TRAIN)
    with yard.away("gpu01"):
        away = yard.apply()
        assert away.code == 1
        assert "host_unreachable" in away.problems
        kept = yard.recorded(TRAIN_REF)
        assert (kept.phase, kept.node) == ("releasing", "gpu01")
        blocked = {state for ref, state in yard.claims.items() if ref.startswith(TRAIN_REF)}
        assert blocked <= {"releasing", "cleanup_blocked"} and blocked
        looked = yard.plan("--refresh")
        assert looked.actions == {TRAIN_REF: "release"}
        seen = {row["name"]: row["problem"] for row in yard.gpuaas("nodes").document["result"]}
        assert "root folder" in seen["gpu01"]
    assert yard.apply().code == 0
    assert yard.recorded(TRAIN_REF) is None
    assert not [ref for ref in yard.claims if ref.startswith(TRAIN_REF)]


CRASH = """
import itertools, os, signal, sys, time
from reconciler.cli.main import run
from reconciler.operations.apply.wave import work as working

looked_at = itertools.count(1)

def die(*args, **kwargs):
    if sys.argv[2] == "run_wave" or next(looked_at) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)

setattr(working, sys.argv[2], die)
run(["-C", sys.argv[1], "apply", "--auto-approve"])
"""


def test_a_crash_in_the_middle_is_taken_up_where_it_was(before: Yard, tmp_path: Path) -> None:
    """PLC-06, STM-03: killed before any host was asked, then after it had done all.

    Each time the next walk finds open steps, looks first, and goes on with the same claims; and
    what git no longer wants so by then is taken away, although it was never recorded.
    """
    yard = copy_of(before, tmp_path)
    for moment in ("run_wave", "observe"):
        process = yard.python(CRASH, moment)
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        assert len(yard.world.open_steps) == 9
        claimed = yard.rows("SELECT id, allocation_id, state FROM claim ORDER BY id")
        assert len(claimed) == 4
    assert len(list(yard.root("gpu01").glob("home/train-*"))) == 1
    yard.remove(TRAIN)
    yard.write({**SOLO, "spec": {**SOLO["spec"], "sku": "slice-2"}})
    yard.commit()
    done = yard.apply()
    assert done.code == 0
    assert {ref: done.actions[ref] for ref in (TRAIN_REF, SOLO_REF, BOX_REF)} == {
        TRAIN_REF: "release",
        SOLO_REF: "release",
        BOX_REF: "create",
    }
    now = yard.rows("SELECT id, allocation_id, state FROM claim ORDER BY id")
    assert [row[:2] for row in now] == [row[:2] for row in claimed], "nobody was given a second"
    assert yard.claims.keys() == {f"{BOX_REF}@gpu03/*"}
    for node in ("gpu01", "gpu02"):
        assert not list(yard.root(node).glob("home/*"))
        assert not list(yard.root(node).glob("etc/gpuaas/allocations/*"))
    unchanged = {o["changed"] for o in outcomes_of(done) if o["step"]["ref"] == BOX_REF}
    assert unchanged == {False}, "its host had done all before"
    states = yard.rows("SELECT state FROM run ORDER BY number")
    assert states == [("interrupted",), ("interrupted",), ("done",)]
    assert yard.gpuaas("state", "check").code == 0
    events = yard.gpuaas("events").document["result"]
    assert "lock_taken_over" in {event["type"] for event in events}
    left = yard.plan()
    assert (left.code, left.actions) == (0, {SOLO_REF: "create"})
    assert left.change(SOLO_REF)["placement"]["slots"] == ["s0", "s1"]


APPLY = """
import sys
from reconciler.cli.main import run
sys.exit(run(["-C", sys.argv[1], "apply", "--auto-approve=destroys"]))
"""


def test_ctrl_c_ends_after_the_play_in_hand(yard: Yard) -> None:
    """The first wave of a replace is provided and recorded, the second never begins; then it does.

    F-CLI-01's code for it is 130.
    """
    spec = {**TRAIN["spec"], "sku": "slice-1", "node": "gpu02"}
    yard.write({**TRAIN, "spec": spec})
    yard.commit()
    old = yard.recorded(TRAIN_REF)
    process = yard.python(APPLY)
    assert process.stderr is not None
    for line in process.stderr:
        if "converge" in line:
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "interrupted" in out
    (state,) = yard.rows("SELECT state FROM run ORDER BY number DESC LIMIT 1")
    assert state == ("interrupted",)
    assert yard.world.open_steps == ()
    assert yard.recorded(TRAIN_REF).node == "gpu02"
    assert {ref: s for ref, s in yard.claims.items() if ref.startswith(TRAIN_REF)} == {
        f"{TRAIN_REF}@gpu01/s0": "held",
        f"{TRAIN_REF}@gpu01/s1": "held",
        f"{TRAIN_REF}@gpu02/s1": "held",
    }

    done = yard.apply()
    assert (done.code, done.actions) == (0, {TRAIN_REF: "replace"})
    assert {ref: s for ref, s in yard.claims.items() if ref.startswith(TRAIN_REF)} == {
        f"{TRAIN_REF}@gpu02/s1": "held"
    }
    new = yard.recorded(TRAIN_REF)
    assert (new.node, new.slots) == ("gpu02", ("s1",))
    assert not (yard.root("gpu01") / "home" / old.login).exists()
    assert (yard.root("gpu02") / "home" / new.login).is_dir()
    assert yard.plan("--detailed-exitcode").code == 0
    assert yard.gpuaas("state", "check").code == 0
