"""Releases: asked for, proved on the host, and free only after that."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Risk
from tests import privileges
from tests.harness.applied_fleet import BOX, GRANTS, SOLO, TRAIN
from tests.harness.yard import Yard, card, laid, project
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

REF = "allocation/vision/train"
NEXT = paper.allocation("next", "slice-2", node="gpu01")


def test_a_slot_is_free_when_its_host_is_proved_clean_and_not_before(yard: Yard) -> None:
    """F-PLN-03: only the one that was named goes, and its successor comes with the next apply."""
    held = yard.recorded(REF)
    yard.remove(TRAIN, BOX)
    yard.write(NEXT)
    yard.commit()

    shown = yard.plan("--detailed-exitcode")
    assert shown.actions[REF] == "release"
    assert shown.change(REF)["risk"] == "destroys"
    assert shown.change(REF)["facts"]["order"] == "revoke > wipe > proof > free"
    asks = yard.apply("--auto-approve")
    assert asks.code == 3, "blocked wins over held"
    assert asks.blocked[REF] == "held_for_approval"
    assert yard.claims[f"{REF}@gpu01/s0"] == "held"

    only = ("--only", REF, "--only", "allocation/vision/next")
    done = yard.apply(*only)
    assert (done.code, done.blocked) == (3, {"allocation/vision/next": "sku_unavailable"})
    assert done.document["result"]["done"] == [REF]

    root = yard.root("gpu01")
    assert os.listdir(root / "home") == os.listdir(root / "etc/gpuaas/ssh") == []
    assert os.listdir(root / "etc/gpuaas/allocations") == []
    assert os.listdir(root / "var/lib/gpuaas/scratch") == []
    proofs = yard.rows(
        "SELECT slot, passed, source FROM proof WHERE allocation_id = ? ORDER BY slot", held.id
    )
    assert proofs == [("s0", 1, "standin"), ("s1", 1, "standin")]
    assert yard.claims == {
        "allocation/vision/solo@gpu02/s0": "held",
        "allocation/nlp/box@gpu03/*": "held",
    }
    assert yard.recorded(REF) is None
    assert yard.recorded("allocation/nlp/box").phase == "active"

    after = yard.plan("--only", "allocation/vision/next")
    assert after.actions == {"allocation/vision/next": "create"}
    assert after.change("allocation/vision/next")["placement"]["slots"] == ["s0", "s1"]
    assert yard.plan().actions["allocation/nlp/box"] == "release"


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    """A file that not even root removes."""
    path.write_text("left behind")
    privileges.have(privileges.immutable)
    subprocess.run(["chattr", "+i", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


def test_what_was_left_behind_keeps_a_slot_from_becoming_free(yard: Yard) -> None:
    """A leftover blocks every slot, a process only the slot of its GPU, until each is gone."""
    held, root = yard.recorded(REF), yard.root("gpu01")
    yard.remove(TRAIN)
    apps = root / "etc/gpuaas-standin/apps.csv"
    quiet = apps.read_text()
    apps.write_text(f"{quiet}{card('gpu01', 1)}, 4711, python train.py\n")

    with immutable(root / "home" / held.login / "sticky"):
        stuck = yard.apply()
        assert stuck.code == 1
        assert "cleanup_blocked" in stuck.problems
        assert "sticky" in stuck.messages
        assert not (root / "etc/gpuaas/ssh" / held.login).exists(), "keys go first of all"
        assert yard.claims[f"{REF}@gpu01/s0"] == yard.claims[f"{REF}@gpu01/s1"]
        assert yard.claims[f"{REF}@gpu01/s0"] == "cleanup_blocked"
        kept = yard.recorded(REF)
        assert (kept.phase, kept.id, kept.problem) == ("releasing", held.id, "cleanup_blocked")
        assert yard.rows("SELECT count(*) FROM usage_record WHERE ended = ''") == [(2,)]
        assert yard.plan().actions == {REF: "release"}
    status = yard.gpuaas("status")
    assert [one["kind"] for one in status.document["result"]["needsYou"]][:2] == ["proof", "proof"]

    half = yard.apply()
    assert half.code == 1
    assert "4711" in half.messages
    assert f"{REF}@gpu01/s0" not in yard.claims, "its GPU is idle and nothing else is left"
    assert yard.claims[f"{REF}@gpu01/s1"] == "cleanup_blocked"
    assert yard.recorded(REF).phase == "releasing"

    apps.write_text(quiet)
    assert yard.apply().code == 0
    assert not [claim for claim in yard.claims if claim.startswith(REF)]
    assert yard.recorded(REF) is None
    assert yard.gpuaas("state", "check").code == 0


def test_a_slip_is_held_back_by_what_the_state_remembers(yard: Yard) -> None:
    """F-PLN-02: protection outlives its file, alone or with the whole project's folder."""
    ref, folder = "allocation/vision/solo", yard.specs / "allocation/vision"
    yard.remove(SOLO, *GRANTS)
    alone = yard.apply("--auto-approve=safe")
    assert (alone.code, alone.blocked) == (3, {ref: "protected"})

    elsewhere = folder.rename(yard.folder / "elsewhere")
    (yard.specs / "project/vision.yaml").unlink()
    yard.commit()
    together = yard.apply("--auto-approve=safe")
    assert together.blocked == {
        ref: "protected",
        REF: "held_for_approval",
        "project/vision": "in_use",
    }
    assert yard.claims[f"{ref}@gpu02/s0"] == yard.claims[f"{REF}@gpu01/s0"] == "held"

    elsewhere.rename(folder)
    yard.write(project("vision", "ana", "bo", "cem", "dana"))
    yard.write({**SOLO, "spec": {**SOLO["spec"], "protect": False}})
    yard.commit()
    lifted = yard.apply("--auto-approve=safe")
    assert (lifted.code, lifted.actions) == (0, {ref: "change"})
    yard.remove(SOLO)
    assert yard.plan().actions == {ref: "release"}


class TestTakenBack:
    """Rule 12, on hosts: shut off, whole, back again; and wiped once nobody wants it back."""

    @pytest.fixture
    def yard(self, tmp_path: Path) -> Yard:
        yard = laid(tmp_path / "yard", {"gpu01": 2}, SMALL, LATER)
        applied = yard.apply_at(MORNING)
        assert [change.ref.name for change in applied.done if change.login] == ["small"]
        one = yard.recorded(SMALL_REF)
        (yard.root("gpu01") / "home" / one.login / "work").write_text("work")
        return yard

    def test_a_revert_finds_everything_as_it_was(self, yard: Yard) -> None:
        """REL-01 REL-06: nobody gets in, nothing is lost, nothing is billed, the place is kept."""
        before, root = yard.recorded(SMALL_REF), yard.root("gpu01")
        yard.remove(SMALL)
        yard.commit()
        shut = yard.apply_at(MORNING + HOUR)
        assert not shut.problems
        assert yard.recorded(SMALL_REF).phase == "quarantined"
        assert os.listdir(root / "etc/gpuaas/ssh") == []
        assert (root / "home" / before.login / "work").read_text() == "work"
        assert yard.claims == {f"{SMALL_REF}@gpu01/s0": "held"}
        assert not yard.apply_at(MORNING + HOUR + MINUTE).plan.active

        yard.write(SMALL)
        yard.commit()
        back = yard.approved_at(MORNING + HOUR + 30 * MINUTE, Risk.SAFE)
        assert [change.action for change in back.done] == ["restore"]
        after = yard.recorded(SMALL_REF)
        assert (after.phase, after.id, after.login) == ("active", before.id, before.login)
        assert (root / "home" / after.login / "work").read_text() == "work"
        assert yard.keys(SMALL_REF)
        assert [row[0] != "" for row in uses(yard, before.id)] == [True, False]

    def test_its_time_runs_out_and_its_file_makes_it_no_more(self, yard: Yard) -> None:
        """REL-05 REL-07: nobody is asked twice, and all of it goes in its order."""
        held, root = yard.recorded(SMALL_REF), yard.root("gpu01")
        assert held.expires_at == "2026-12-15T12:00:00Z"
        over = MORNING + timedelta(days=15)
        shut = yard.approved_at(over, Risk.SAFE)
        assert [(c.action, c.cause) for c in shut.done] == [("release", "expired")]
        assert (root / "home" / held.login / "work").exists()
        wiped = yard.approved_at(over + HOUR, Risk.SAFE)
        assert [(c.action, c.cause) for c in wiped.done] == [("release", "expired")]
        assert os.listdir(root / "home") == []
        assert yard.claims == {}
        assert yard.rows("SELECT passed FROM proof") == [(1,)]
        told = yard.rows("SELECT type, after FROM event WHERE ref = ? ORDER BY sequence", SMALL_REF)
        began = told.index(next(one for one in told if "allocation.quarantine" in one[1]))
        verbs = [json.loads(after)["verb"] for type, after in told if type == "step_started"]
        assert verbs[-4:] == [
            *("access.sync", "allocation.quarantine", "access.sync", "allocation.release")
        ]
        order = ["claim_releasing", "proved", "claim_freed", "forgotten"]
        assert [type for type, _ in told[began:] if type in order] == order
        ((ended,),) = uses(yard, held.id)
        assert ended == format_moment(over), "billed until it was shut off, and no longer"
        again = yard.approved_at(over + 2 * HOUR, Risk.SAFE)
        assert [c.problem.code for c in again.plan.changes if c.problem] == ["lease_lapsed"]
        yard.remove(SMALL)
        yard.approved_at(over + 2 * HOUR, Risk.SAFE)
        assert yard.world.lapsed == {}


MORNING, HOUR, MINUTE = paper.NOW, timedelta(hours=1), timedelta(minutes=1)
SMALL, SMALL_REF = paper.allocation("small"), "allocation/vision/small"
LATER = paper.policy(
    guard={"maxRemovals": 5, "maxRemovalPercent": 100},
    release={"undoMinutes": 60},
    lease={"graceHours": 24},
)


def uses(yard: Yard, id: str) -> list[tuple[str]]:
    query = "SELECT ended FROM usage_record WHERE allocation_id = ? ORDER BY started"
    return [(ended,) for (ended,) in yard.rows(query, id)]
