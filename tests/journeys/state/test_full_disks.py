"""The control machine's own disks are full: nothing is lost, nothing is done that is not recorded.

The state lies on a small file system of its own, which is filled to the brim at the worst moments.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.operations.apply.wave import work
from tests import privileges
from tests.harness.applied_fleet import TRAIN
from tests.harness.yard import ROOT, Said, Yard
from tests.planner import fleet as paper

pytestmark = [
    pytest.mark.walk,
    pytest.mark.ansible,
    privileges.needs(privileges.mounts),
]

NEW, NEW_REF = paper.allocation("new", node="gpu02"), "allocation/vision/new"
TRAIN_REF = "allocation/vision/train"
MOVED = {**TRAIN, "spec": {**TRAIN["spec"], "sku": "slice-1", "node": "gpu02"}}


@contextmanager
def small(folder: Path, options: str) -> Iterator[None]:
    """What is in the folder, on a file system of its own."""
    aside = folder.with_name(f"{folder.name}-aside")
    folder.rename(aside)
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", folder], check=True)
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    """Not one more byte fits."""
    with suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    assert os.statvfs(folder).f_bavail == 0


def use_inodes(folder: Path) -> None:
    """Not one more file fits."""
    (folder / "ballast").mkdir()
    with suppress(OSError):
        for number in range(10_000):
            (folder / "ballast" / str(number)).touch()
    assert os.statvfs(folder).f_ffree == 0


def free(folder: Path) -> None:
    ballast = folder / "ballast"
    shutil.rmtree(ballast) if ballast.is_dir() else ballast.unlink()


@pytest.fixture
def state(yard: Yard) -> Iterator[Path]:
    with small(yard.folder / "state", "size=8m,nr_inodes=200,mode=700"):
        yield yard.folder / "state"


def when(
    patch: pytest.MonkeyPatch, *, before: bool, then: Callable[[], None], wave: int = 1
) -> None:
    """`then` is done once, before or after the hosts of a wave have done their work."""
    real, waves = work.run_wave, iter(range(1, 99))

    def run_wave(*arguments: Any) -> Any:
        now = next(waves) == wave
        if now and before:
            then()
        # Without the last one, which hears of each host as soon as that has ended.
        receipts = real(*arguments[:-1])
        if now and not before:
            then()
        return receipts

    patch.setattr(work, "run_wave", run_wave)


def is_whole(yard: Yard) -> None:
    """As far as anybody can tell who may only read."""
    checked = yard.gpuaas("state", "check")
    assert checked.code == 0, checked.document
    assert yard.gpuaas("status").code == 0


def no_room(said: Said) -> None:
    assert said.code == 1
    assert set(said.problems) <= {"state_disk_full", "snapshot_failed"}, said.document["problems"]
    assert "space" in said.messages


@pytest.mark.parametrize("spoil", [fill, use_inodes])
def test_without_room_nothing_is_begun(
    yard: Yard, state: Path, spoil: Callable[[Path], None]
) -> None:
    """F-STA-05: full before the apply; what was is whole, and after room was made all goes on."""
    yard.write(NEW)
    yard.commit()
    before, claims = yard.hosts(), yard.claims
    spoil(state)
    no_room(yard.apply())
    assert (yard.hosts(), yard.claims) == (before, claims)
    is_whole(yard)
    free(state)
    assert yard.apply().code == 0
    assert yard.claims[f"{NEW_REF}@gpu02/s1"] == "held"
    is_whole(yard)


def test_full_when_the_hosts_have_done_their_work(
    yard: Yard, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STA-05, F-STA-01: the end is not written, the intent is; it stops before the next host."""
    yard.write(MOVED)
    yard.commit()
    old = yard.recorded(TRAIN_REF)
    when(monkeypatch, before=False, then=lambda: fill(state))
    no_room(yard.apply())
    monkeypatch.undo()
    assert (yard.root("gpu01") / "home" / old.login).is_dir(), "the second wave has not begun"
    is_whole(yard)
    assert {ref for ref in yard.claims if ref.startswith(TRAIN_REF)} == {
        f"{TRAIN_REF}@gpu01/s0",
        f"{TRAIN_REF}@gpu01/s1",
        f"{TRAIN_REF}@gpu02/s1",
    }
    free(state)
    assert yard.apply().code == 0
    assert [ref for ref in yard.claims if ref.startswith(TRAIN_REF)] == [f"{TRAIN_REF}@gpu02/s1"]
    assert not (yard.root("gpu01") / "home" / old.login).exists()
    assert len(list((yard.root("gpu02") / "home").glob("train-*"))) == 1
    assert yard.plan("--refresh", "--detailed-exitcode").code == 0
    is_whole(yard)


def test_a_log_that_cannot_be_kept_costs_no_receipt(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STA-05: where the logs of runs go there is no room, or no folder at all."""
    runs = yard.folder / "state/runs"
    shutil.rmtree(runs)
    runs.touch()
    yard.write(NEW)
    yard.commit()
    done = yard.apply()
    assert (done.code, done.problems) == (0, [])
    assert yard.claims[f"{NEW_REF}@gpu02/s1"] == "held"


APART = """
mount --bind "$1" /mnt
mount --bind "$2" /srv
mount -t tmpfs -o size=64k,nr_inodes=40 small /tmp
# The program itself may lie below /tmp.
[ -e "$2" ] || { mkdir -p "$2" && mount --bind /srv "$2"; }
$FILLING
exec GPUAAS -C /mnt apply --auto-approve -o json
"""
BLOCKS = "dd if=/dev/zero of=/tmp/ballast bs=1k 2> /dev/null || true"
INODES = "for n in $(seq 100); do touch /tmp/$n 2> /dev/null || true; done"


@pytest.mark.parametrize("filling", [BLOCKS, INODES], ids=["blocks", "inodes"])
def test_no_room_for_what_a_run_needs(yard: Yard, filling: str) -> None:
    """F-STA-05: /tmp is full where this process is; no host is touched, and the state is whole."""
    yard.write(NEW)
    yard.commit()
    before = yard.hosts()
    program = str(Path(sys.executable).with_name("gpuaas"))
    script = APART.replace("$FILLING", filling).replace("GPUAAS", program)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", yard.folder, ROOT],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout)
    assert [problem["code"] for problem in said["problems"]] == ["run_folder_unusable"]
    assert "No space left on device" in said["problems"][0]["message"]
    assert yard.hosts() == before
    is_whole(yard)
    assert yard.apply().code == 0
    assert yard.claims[f"{NEW_REF}@gpu02/s1"] == "held"
