"""Rounds: what a loop that applies for ever leaves on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.hosts.folders import FAILED, LOG
from tests.harness.applied_fleet import TRAIN
from tests.harness.yard import Yard, copy_of

pytestmark = [pytest.mark.walk, pytest.mark.ansible]

ROUNDS = 500


def left_behind(yard: Yard) -> set[Path]:
    """Every name below the fleet's folder but git's."""
    return {path for path in yard.folder.rglob("*") if ".git" not in path.parts}


@pytest.mark.parametrize("rounds", [125, pytest.param(ROUNDS, marks=pytest.mark.slow)])
def test_rounds_without_a_change_leave_nothing(yard: Yard, rounds: int) -> None:
    """F-ANS-12: no run starts, no folder is made, no event is written, the database stays."""
    yard.apply_at()
    names, size = left_behind(yard), yard.rows("PRAGMA page_count")
    runs, events = yard.runs, yard.rows("SELECT max(sequence) FROM event")
    for _ in range(rounds):
        assert not yard.apply_at().run
    assert yard.runs == runs
    assert left_behind(yard) == names
    assert yard.rows("SELECT max(sequence) FROM event") == events
    assert yard.rows("PRAGMA page_count") == size


def test_of_rounds_with_a_failing_host_few_are_kept(before: Yard, tmp_path: Path) -> None:
    """F-ANS-12: as many as the settings say, and the newest that failed beside them."""
    yard = copy_of(before, tmp_path)
    (yard.folder / "gpuaas.yaml").write_text("operators: [olga]\nkeep: {logs: 1}\n")
    yard.commit()
    keys = yard.root("gpu02") / "etc/gpuaas/ssh"
    keys.parent.mkdir(parents=True)
    keys.write_text("not a folder")
    for _ in range(3):
        assert yard.apply_at().problems
        (kept,) = yard.runs
    failed = kept

    keys.unlink()
    assert yard.apply_at().problems == ()
    for people in (["ana"], ["ana", "bo"]):
        yard.write({**TRAIN, "spec": {**TRAIN["spec"], "access": people}})
        yard.commit()
        assert yard.apply_at().problems == ()
        assert len(yard.runs) == 2
        assert yard.runs[0] == failed
    folder = yard.folder / "state/runs"
    assert {path.name for path in (folder / failed).iterdir()} == {LOG, FAILED}
    assert {path.name for path in (folder / yard.runs[1]).iterdir()} == {LOG}
