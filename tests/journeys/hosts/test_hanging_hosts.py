"""One host stops in the midst of its work: nobody waits for it, and the next apply ends well."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.operations.apply.wave import work
from tests.harness.applied_fleet import BOX, SOLO, TRAIN
from tests.harness.directory_host import PLAYBOOKS
from tests.harness.hanging_host import Apply, hanging, until
from tests.harness.yard import Yard, copy_of
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF

pytestmark = [pytest.mark.walk, pytest.mark.ansible]

BOX_REF = "allocation/nlp/box"


def test_who_is_on_another_host_is_let_in_at_once(
    before: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-25: recorded while the other is at work; that one's end is unknown after its budget,
    and a plain apply then finishes it.
    """
    yard = copy_of(before, tmp_path / "fleet")
    with hanging(monkeypatch, tmp_path / "hang", "gpu01", timeout_s=45):
        at_work = Apply(yard)
        until(lambda: yard.recorded(SOLO_REF) and yard.recorded(BOX_REF))
        assert at_work.is_at_work and yard.recorded(TRAIN_REF) is None
        assert "bo/laptop" in yard.keys(SOLO_REF)
        assert {step.node for step in yard.world.open_steps} == {"gpu01"}
        assert set(yard.claims.values()) == {"held"}
        done = at_work.end()
        assert {problem.code for problem in done.problems} == {"host_timeout"}
        assert {str(change.ref) for change in done.done} >= {SOLO_REF, BOX_REF}
        assert str(done.left[0].ref) == TRAIN_REF
    again = yard.apply()
    assert (again.code, again.problems) == (0, []), again.document["problems"]
    assert "bo/laptop" in yard.keys(TRAIN_REF)
    assert yard.plan("--detailed-exitcode").code == 0
    assert TRAIN and SOLO and BOX


PATIENCE = ("PATIENCE_SECONDS, REST_SECONDS = 45.0, 0.1", "STILL_SECONDS = 20.0")


@pytest.mark.parametrize("part", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_an_earlier_run_on_a_host_is_waited_for(
    before: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """F-REAL-25: it moves, so nobody ends it; its host takes its turn when that is over.

    It takes longer than a host is patient with one that stands still, and than it waits at a time.
    """
    playbooks = Path(shutil.copytree(PLAYBOOKS, tmp_path / "playbooks"))
    lock = playbooks / "module_utils/gpuaas/host_lock.py"
    code = lock.read_text()
    assert all(f"\n{line}\n" in code for line in PATIENCE)
    lock.write_text(code.replace("45.0, 0.1", f"{45 / part}, 0.1").replace("20.0", f"{20 / part}"))
    real = work.run_options
    monkeypatch.setattr(
        work, "run_options", lambda *more: replace(real(*more), playbooks=playbooks)
    )
    yard = copy_of(before, tmp_path / "fleet")
    folder = os.open(yard.root("gpu01"), os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    over = threading.Timer(60 / part, fcntl.flock, (folder, fcntl.LOCK_UN))
    over.start()
    try:
        done = yard.apply()
    finally:
        over.cancel()
        os.close(folder)
    assert (done.code, done.problems) == (0, []), done.document["problems"]
