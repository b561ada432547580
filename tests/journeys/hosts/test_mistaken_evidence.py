"""Nothing passes for clean, gone, free or revoked because the wrong thing was looked at."""

from __future__ import annotations

import signal
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.hosts.ansible.executor import run_wave
from reconciler.model.plan.work import Receipt
from reconciler.operations.apply.wave import work as apply_work
from reconciler.operations.fleet import utc_now
from tests.harness.applied_fleet import BO, CEM, GRANTS, SOLO, TRAIN
from tests.harness.yard import Yard, card, copy_of, node
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

TRAIN_REF, SOLO_REF, BOX_REF = (
    "allocation/vision/train",
    "allocation/vision/solo",
    "allocation/nlp/box",
)
NEW = paper.allocation("new", owner="cem")
NEW_REF = "allocation/vision/new"
APPS = "etc/gpuaas-standin/apps.csv"

MOVED = {**TRAIN, "spec": {**TRAIN["spec"], "sku": "slice-1", "node": "gpu02"}}

KILLED_AFTER_THE_HOST = """
import os, signal, sys
from reconciler.cli.main import run
from reconciler.operations.apply.wave import work as working

real, waves = working.observe, int(sys.argv[2])

def die(*args, **kwargs):
    global waves
    waves -= 1
    if not waves:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)

working.observe = die
run(["-C", sys.argv[1], "apply", "--auto-approve=destroys"])
"""


def released(yard: Yard, document: Any) -> None:
    yard.remove(document)
    yard.commit()


def killed_after_the_host(yard: Yard, wave: int = 1) -> bool:
    """Whether an apply was killed once its hosts had done a wave and nothing of it was written."""
    process = yard.python(KILLED_AFTER_THE_HOST, str(wave))
    process.communicate(timeout=120)
    return process.returncode == -signal.SIGKILL


def busy(yard: Yard, name: str, number: int = 0) -> Path:
    """Somebody computes on a card of the node."""
    apps = yard.root(name) / APPS
    apps.write_text(f"{card(name, number)}, 4242\n")
    return apps


def test_a_release_is_proved_where_the_allocation_is(yard: Yard) -> None:
    """F-PLC-04: a root that git has moved holds nothing, and that is no proof of anything."""
    was = yard.recorded(TRAIN_REF)
    yard.write(node("gpu01", 2, root="nodes/elsewhere"))
    yard.lay_nodes()
    yard.remove(TRAIN)
    done = yard.apply()
    assert done.blocked == {"node/gpu01": "field_refused"}
    assert not [ref for ref in yard.claims if ref.startswith(TRAIN_REF)]
    assert not (yard.root("gpu01") / "home" / was.login).exists()
    assert not (yard.root("gpu01") / "etc/gpuaas/ssh" / was.login).exists()
    assert not list((yard.folder / "nodes/elsewhere").glob("home/*"))


def test_what_was_renamed_is_cleared_under_the_login_that_it_had(yard: Yard) -> None:
    """F-PLC-05: renamed, moved, its cleanup blocked; and then its own home and keys go."""
    was = yard.recorded(TRAIN_REF)
    yard.remove(TRAIN)
    learn = deepcopy(TRAIN)
    learn["metadata"] |= {"name": "learn", "formerName": "train"}
    yard.write(learn)
    assert yard.apply().actions == {"allocation/vision/learn": "rename"}
    yard.write({**learn, "spec": {**learn["spec"], "sku": "slice-1", "node": "gpu02"}})
    yard.commit()
    apps = busy(yard, "gpu01")
    home = yard.root("gpu01") / "home" / was.login
    aside = home.rename(home.with_name("aside"))
    home.symlink_to(aside)
    assert "cleanup_blocked" in yard.apply().problems
    home.unlink()
    aside.rename(home)
    apps.write_text("")
    assert yard.apply().code == 0
    assert yard.claims.keys() & {f"allocation/vision/learn@gpu01/s{n}" for n in (0, 1)} == set()
    assert not home.exists()
    assert not (yard.root("gpu01") / "etc/gpuaas/ssh" / was.login).exists()


def test_a_begun_move_is_cleared_after_another_name(yard: Yard) -> None:
    """F-STA-01: its login stands beside its claims from the first, so a rename cannot hide it."""
    yard.write(MOVED)
    yard.commit()
    assert killed_after_the_host(yard)
    homes = set((yard.root("gpu02") / "home").iterdir())
    assert len(homes) == 2
    learn = deepcopy(TRAIN)
    learn["metadata"] |= {"name": "learn", "formerName": "train"}
    released(yard, TRAIN)
    yard.write(learn)
    for _ in range(2):
        assert yard.apply().code == 0
    assert "allocation/vision/learn@gpu02/s1" not in yard.claims
    (left,) = (yard.root("gpu02") / "home").iterdir()
    assert left.name == yard.recorded(SOLO_REF).login


def test_a_move_whose_end_nobody_told_keeps_its_new_place(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STA-01: the old place is seen to be clean and is freed; what is at the new one stays."""

    def deaf(*arguments: Any) -> tuple[Receipt, ...]:
        told = run_wave(*arguments[:-1])
        return tuple(receipt for receipt in told if receipt.verb != "allocation.release")

    monkeypatch.setattr(apply_work, "run_wave", deaf)
    yard.write(MOVED)
    yard.commit()
    done = yard.apply()
    assert (done.code, done.problems) == (1, ["receipt_missing"])
    now = yard.recorded(TRAIN_REF)
    assert (now.phase, now.node) == ("active", "gpu02")
    assert yard.claims[f"{TRAIN_REF}@gpu02/s1"] == "held"
    assert yard.plan("--detailed-exitcode").code == 0


def test_a_move_killed_at_its_end_keeps_what_was_left_at_its_new_place(yard: Yard) -> None:
    """F-STA-01, F-STO-03: only the old place is cleared; what is to stand stays on the books."""
    yard.write(MOVED)
    yard.commit()
    assert killed_after_the_host(yard, wave=2)
    now = yard.recorded(TRAIN_REF)
    assert (now.phase, now.node) == ("active", "gpu02")
    work = yard.root("gpu02") / "home" / now.login / "work"
    work.write_text("of days")
    done = yard.apply()
    assert (done.code, done.actions) == (0, {TRAIN_REF: "replace"})
    assert work.read_text() == "of days"
    assert not list((yard.root("gpu01") / "home").iterdir())
    assert yard.recorded(TRAIN_REF).facts == now.facts != {}
    assert [ref for ref in yard.claims if ref.startswith(TRAIN_REF)] == [f"{TRAIN_REF}@gpu02/s1"]


def test_what_a_backup_does_not_know_is_not_free(yard: Yard, tmp_path: Path) -> None:
    """F-PLC-02 F-STA-11: a place given out after the backup is taken, whatever the state says;
    nothing is made that may be it, and its host is asked for what the state does not know.
    """
    backup = str(tmp_path / "before.db")
    assert yard.gpuaas("state", "backup", backup).code == 0
    yard.write(NEW)
    assert yard.apply().code == 0
    assert yard.claims[f"{NEW_REF}@gpu02/s1"] == "held"
    (id,) = yard.rows("SELECT id FROM resource WHERE ref = ?", NEW_REF)
    yard.remove(NEW)
    assert yard.gpuaas("state", "restore", backup).code == 0
    yard.write(paper.allocation("other"))
    done = yard.apply()
    assert (done.code, done.blocked) == (3, {"allocation/vision/other": "allocation_may_exist"})
    assert "gpu02" in done.change("allocation/vision/other")["problem"]["message"]
    found = yard.gpuaas("explain", "allocation/vision/other").document["result"]["candidates"]
    (refused,) = [one for one in found if one["node"] == "gpu02"]
    assert refused["rule"] == "unclaimed_descriptors"
    assert id[0] in refused["detail"]

    hosts = yard.hosts()
    assert yard.gpuaas("state", "rebuild", "--node", "gpu02", "--yes").code == 0
    assert (yard.claims[f"{NEW_REF}@gpu02/s1"], yard.hosts()) == ("held", hosts)
    assert yard.plan().actions == {NEW_REF: "release", "allocation/vision/other": "blocked"}
    assert yard.plan().blocked == {
        "allocation/vision/other": "sku_unavailable",
        NEW_REF: "removal_uncommitted",
    }
    yard.write(NEW)
    assert yard.plan().actions == {"allocation/vision/other": "blocked"}


def test_who_was_let_in_after_a_backup_is_shut_out_again(yard: Yard, tmp_path: Path) -> None:
    """F-GRT-02: a restored state does not know what keys its hosts hold, so it looks."""
    yard.remove(GRANTS[1])
    assert yard.apply().code == 0
    backup = str(tmp_path / "before.db")
    assert yard.gpuaas("state", "backup", backup).code == 0
    yard.write(GRANTS[1])
    assert yard.apply().code == 0
    assert "cem/desk" in yard.keys(SOLO_REF)
    yard.remove(GRANTS[1])
    assert yard.gpuaas("state", "restore", backup).code == 0
    assert yard.apply().code == 0
    assert "cem/desk" not in yard.keys(SOLO_REF)
    assert yard.plan("--detailed-exitcode").code == 0


def test_a_key_that_may_have_reached_its_host_is_taken_back(yard: Yard) -> None:
    """F-STA-01, F-GRT-02: killed once the host had the key, and git is as it was before."""
    grant = paper.grant("cem-on-box", "box", "ana", "nlp", expiresAt="none")
    yard.write(grant)
    assert killed_after_the_host(yard)
    assert "ana/desk" in yard.keys(BOX_REF)
    yard.remove(grant)
    done = yard.apply()
    assert (done.code, done.actions[BOX_REF]) == (0, "change")
    assert yard.keys(BOX_REF) == ["bo/desk", "bo/laptop"]
    assert yard.plan("--detailed-exitcode").code == 0


def test_a_person_is_suspended_although_somebody_shares_his_key(yard: Yard) -> None:
    """F-GRT-02: what is wrong with a document does not keep a suspension in it from working."""
    cem = deepcopy(CEM)
    cem["spec"]["keys"].append({"id": "stolen", "publicKey": BO["spec"]["keys"][0]["publicKey"]})
    bo = deepcopy(BO)
    bo["spec"]["state"] = "suspended"
    yard.write(bo, cem)
    done = yard.apply()
    assert (done.code, done.actions["user/cem"]) == (1, "frozen")
    assert not [key for key in yard.keys(TRAIN_REF) if key.startswith("bo/")]


def test_a_grant_that_may_not_change_is_no_leave_for_whom_it_was_given(yard: Yard) -> None:
    """F-GRT-02: its new user is refused, and its former one is out."""
    grant = deepcopy(GRANTS[1])
    grant["spec"]["user"] = "ana"
    access = deepcopy(SOLO)
    access["spec"] |= {"owner": "bo", "access": ["bo"]}
    yard.write(grant, access)
    done = yard.apply()
    assert done.blocked["grant/vision/cem-on-solo"] == "field_refused"
    assert not [key for key in yard.keys(SOLO_REF) if key.startswith("cem/")]


def test_two_that_swap_names_do_not_swap_people(yard: Yard) -> None:
    """F-PLN-04: nor is one destroyed that was to take the other's name."""
    solo, train = deepcopy(SOLO), deepcopy(TRAIN)
    solo["spec"]["protect"] = False
    yard.write(solo)
    yard.remove(*GRANTS)
    assert yard.apply().code == 0
    keys, claims = yard.keys(SOLO_REF), yard.claims
    solo["metadata"]["name"], train["metadata"]["name"] = "train", "solo"
    solo["metadata"]["formerName"], train["metadata"]["formerName"] = "solo", "train"
    yard.write(solo, train)
    yard.commit()
    done = yard.apply()
    assert done.blocked == dict.fromkeys((SOLO_REF, TRAIN_REF), "rename_unsound")
    assert (yard.claims, yard.keys(SOLO_REF)) == (claims, keys)
    yard.remove(train)
    yard.commit()
    done = yard.apply()
    assert done.blocked == dict.fromkeys((SOLO_REF, TRAIN_REF), "rename_unsound")
    assert yard.claims == claims


def test_a_document_that_left_a_file_that_stays_is_not_gone(yard: Yard) -> None:
    """F-REC-02: it may stand in the one that cannot be read; who has left is out all the same."""
    both = yard.specs / "allocation/vision/train.yaml"
    both.write_text(yaml.safe_dump_all([TRAIN, NEW]))
    assert yard.apply().code == 0
    both.write_text(yaml.safe_dump(NEW))
    (yard.specs / "moved.yaml").write_text(f"{yaml.safe_dump(TRAIN)}  : [\n")
    yard.remove(GRANTS[1], paper.sku("slice-2"))
    claims = yard.claims
    done = yard.apply()
    assert done.code == 1
    assert done.actions[TRAIN_REF] == "frozen"
    assert done.blocked[TRAIN_REF] == done.blocked["sku/slice-2"] == "resource_broken"
    assert "specs/moved.yaml" in done.change(TRAIN_REF)["problem"]["message"]
    assert done.actions["grant/vision/cem-on-solo"] == "forget"
    assert "cem/desk" not in yard.keys(SOLO_REF)
    assert yard.claims == claims


def test_a_begun_release_is_finished_whatever_cannot_be_read(yard: Yard) -> None:
    """F-GRT-02: its keys are to go, and so they do as soon as its host is back."""
    was = yard.recorded(TRAIN_REF)
    yard.remove(TRAIN)
    with yard.away("gpu01"):
        assert yard.apply().code == 1
    yard.file(TRAIN).write_text(": [")
    assert yard.apply().code == 1
    assert not (yard.root("gpu01") / "etc/gpuaas/ssh" / was.login).exists()
    assert yard.recorded(TRAIN_REF) is None


def test_a_card_that_two_nodes_name_goes_to_nobody_else(before: Yard, tmp_path: Path) -> None:
    """F-PLC-01: its node may not give it up while it is held, so no other may take it."""
    yard = copy_of(before, tmp_path)
    yard.remove(SOLO, *GRANTS)
    assert yard.apply().code == 0
    moved = node("gpu02", 2)["spec"]["slots"]
    moved[0]["gpu"]["uuid"] = card("gpu01", 0)
    spare = node("gpu01", 2)["spec"]["slots"]
    spare[0]["gpu"]["uuid"] = card("gpu99", 0)
    yard.write(paper.node("gpu01", spare), paper.node("gpu02", moved))
    listed = yard.root("gpu02") / "etc/gpuaas-standin/gpus.csv"
    listed.write_text(listed.read_text().replace(card("gpu02", 0), card("gpu01", 0)))
    assert yard.plan("--refresh").code in (0, 3)
    yard.write(NEW, paper.allocation("more"))
    done = yard.apply()
    assert done.blocked["node/gpu01"] == "field_refused"
    assert "sku_unavailable" in done.blocked.values()
    assert [ref for ref in yard.claims if ref.endswith("gpu02/s0")] == []


def test_a_card_in_use_is_not_given_out(yard: Yard) -> None:
    """F-PLC-04: whoever computes there holds no claim, but they are there."""
    apps = busy(yard, "gpu02", 1)
    assert yard.plan("--refresh").code == 0
    yard.write(NEW)
    assert yard.apply().blocked == {NEW_REF: "sku_unavailable"}
    explained = yard.gpuaas("explain", NEW_REF).document["result"]["candidates"]
    assert {one["node"]: one["rule"] for one in explained}["gpu02"] == "gpu_busy"
    apps.write_text("")
    yard.plan("--refresh")
    assert yard.apply().code == 0


def test_evidence_from_a_time_to_come_is_none(yard: Yard) -> None:
    """F-PLC-03: the clock was set back; what was seen then is looked at anew before it counts."""
    later = utc_now() + timedelta(days=400)
    yard.approved_at(later)
    (yard.root("gpu02") / "etc/gpuaas-standin/gpus.csv").write_text("")
    yard.write(NEW)
    shown = yard.plan()
    assert shown.blocked[NEW_REF] == "sku_unavailable"
    assert yard.apply().blocked[NEW_REF] == "sku_unavailable"


def test_a_guard_does_not_go_with_its_file(yard: Yard) -> None:
    """F-PLN-02: a policy that is deleted, or cannot be read, still guards what goes with it."""
    guard = {"maxRemovals": 0, "maxRemovalPercent": 0}
    policy = paper.policy(guard=guard, grant={"mayBeOpenEnded": True})
    yard.write(policy)
    assert yard.apply().code == 0
    yard.remove(*GRANTS)
    yard.commit()
    yard.remove(TRAIN)
    yard.file(policy).write_text(yaml.safe_dump({**policy, "spec": {"odd": True}}))
    assert yard.plan().blocked[TRAIN_REF] == "removals_guard"
    yard.remove(policy)
    assert yard.apply().blocked[TRAIN_REF] == "removals_guard"
