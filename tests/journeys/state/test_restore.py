"""An older state comes back: it believes its hosts and git, and destroys nothing it forgot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.applied_fleet import GRANTS
from tests.harness.yard import Yard
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

NEW, OTHER = paper.allocation("new"), paper.allocation("other")
NEW_REF, OTHER_REF = "allocation/vision/new", "allocation/vision/other"
SOLO_REF = "allocation/vision/solo"


def restore(yard: Yard, which: str | Path) -> None:
    done = yard.gpuaas("state", "restore", str(which))
    assert done.code == 0, done.document


def backup(yard: Yard, tmp_path: Path) -> Path:
    file = tmp_path / "before.db"
    assert yard.gpuaas("state", "backup", str(file)).code == 0
    return file


def test_each_apply_keeps_the_state_before_it(yard: Yard) -> None:
    """F-STA-11: by its serial or as the latest one it comes back, and says what it is."""
    (first,) = yard.gpuaas("state", "snapshots").document["result"]
    assert (first["run"], first["commit"]) == ("", "")
    serial, claims, hosts = yard.world.serial, yard.claims, yard.hosts()
    assert yard.apply().code == 0, "nothing to do"
    assert len(yard.gpuaas("state", "snapshots").document["result"]) == 1
    yard.write(NEW)
    assert yard.apply().code == 0
    assert f"{NEW_REF}@gpu02/s1" in yard.claims
    latest, _ = yard.gpuaas("state", "snapshots").document["result"]
    assert (latest["serial"], latest["run"]) == (serial, "run-000001")
    assert oct(Path(latest["path"]).stat().st_mode) == "0o100600"

    missing = yard.gpuaas("state", "restore", "999999")
    assert (missing.code, missing.problems) == (1, ["not_found"])
    before = yard.hosts()
    restore(yard, str(serial))
    assert (yard.claims, yard.hosts()) == (claims, before)
    assert before != hosts, "restoring a state is no change of a host"
    kept = sorted(path.name for path in (yard.folder / "state").glob("*.before-restore-*"))
    assert kept[0] == "gpuaas.db.before-restore-1"
    (event,) = yard.rows("SELECT reason FROM event WHERE type = 'state_restored'")
    assert event == (f"restored from {Path(latest['path']).name}",)
    restore(yard, "latest")


def test_nothing_is_to_be_done_once_hosts_were_asked(yard: Yard, tmp_path: Path) -> None:
    """F-STA-11: where they show what they should the next plan is empty, and an apply says so."""
    restore(yard, backup(yard, tmp_path))
    hosts, claims = yard.hosts(), yard.claims
    blind = yard.plan()
    assert {c["action"] for c in blind.plan["changes"]} == {"change"}, "nothing is known yet"
    asked = yard.plan("--refresh", "--detailed-exitcode")
    assert (asked.code, asked.actions) == (0, {})
    assert len(asked.plan["confirmed"]) == 3
    assert yard.apply().code == 0
    settled = yard.plan("--detailed-exitcode")
    assert (settled.code, settled.actions, settled.plan["confirmed"]) == (0, {}, [])
    assert (yard.hosts(), yard.claims) == (hosts, claims)
    assert yard.gpuaas("state", "check").code == 0


def test_a_claim_that_is_gone_by_now(yard: Yard, tmp_path: Path) -> None:
    """F-STA-11: the state believes in somebody who left, and knows nothing of who came after them.

    It finds out; and who came after loses neither their place nor a file.
    """
    yard.write(NEW)
    assert yard.apply().code == 0
    file = backup(yard, tmp_path)
    yard.remove(NEW)
    yard.write(OTHER)
    assert yard.apply("--only", NEW_REF).code == 0
    assert yard.apply().code == 0
    assert yard.claims[f"{OTHER_REF}@gpu02/s1"] == "held"
    other = yard.recorded(OTHER_REF)
    work = yard.root("gpu02") / f"home/{other.login}/work.txt"
    work.write_text("a week of it")
    hosts, claims = yard.hosts(), yard.claims

    restore(yard, file)
    assert f"{NEW_REF}@gpu02/s1" in yard.claims
    done = yard.apply()
    assert (done.code, done.actions[NEW_REF]) == (3, "release")
    assert done.blocked == {OTHER_REF: "allocation_may_exist"}
    assert (yard.hosts(), work.read_text()) == (hosts, "a week of it")
    assert not [claim for claim in yard.claims if "gpu02/s1" in claim]
    assert "allocation_may_exist" in yard.plan("--refresh").blocked.values()

    assert yard.gpuaas("state", "rebuild", "--node", "gpu02", "--yes").code == 0
    settled = yard.plan("--refresh", "--detailed-exitcode")
    assert (settled.code, settled.actions) == (0, {})
    assert (yard.claims, yard.recorded(OTHER_REF).id) == (claims, other.id)
    assert yard.hosts() == hosts


def test_access_that_was_taken_away_since_stays_away(yard: Yard, tmp_path: Path) -> None:
    """F-STA-11 F-GRT-02: git says who may enter, and an older state gives nobody's key back."""
    assert "cem/desk" in yard.keys(SOLO_REF)
    file = backup(yard, tmp_path)
    yard.remove(GRANTS[1])
    assert yard.apply().code == 0
    assert "cem/desk" not in yard.keys(SOLO_REF)
    hosts = yard.hosts()
    restore(yard, file)
    assert yard.apply().code == 0
    assert "cem/desk" not in yard.keys(SOLO_REF)
    assert yard.hosts() == hosts, "the host had it as git wants it all the time"
    assert yard.plan("--detailed-exitcode").code == 0


def test_without_its_snapshot_an_apply_does_not_begin(yard: Yard) -> None:
    """F-STA-05: what could not be taken back is not begun; once there is room it is."""
    place = yard.folder / "state/snapshots"
    kept = place.rename(place.with_name("elsewhere"))
    place.touch()
    yard.write(NEW)
    # Hosts are looked at before anybody is placed, and what they say is no part of the apply.
    done = "SELECT max(sequence) FROM event WHERE type != 'observed'"
    hosts, events, runs = yard.hosts(), yard.rows(done), yard.runs
    refused = yard.apply()
    assert (refused.code, refused.problems) == (1, ["snapshot_failed"])
    assert (yard.hosts(), yard.runs) == (hosts, runs)
    assert yard.rows("SELECT * FROM event WHERE type = 'claimed' AND ref = ?", NEW_REF) == []
    assert yard.rows(done) == events
    place.unlink()
    kept.rename(place)
    assert yard.apply().code == 0
