"""One run at a time on a host, and none that places on evidence of another boot."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gpuaas import converge as code
from gpuaas import host_lock, settle
from gpuaas.machine import read_boot_id
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import Probes

from tests import privileges
from tests.harness.directory_host import NO_KEYS, provide_item
from tests.host_code.test_converge import below, do, work

as_root = privileges.needs(privileges.root)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_lock, "PATIENCE_SECONDS", 0.3)


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[int]:
    """Somebody is at work on this folder."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    yield folder
    os.close(folder)


@pytest.mark.usefixtures("impatient", "taken")
def test_a_host_that_is_at_work_is_not_touched(tmp_path: Path) -> None:
    """F-ANS-06: what an earlier run was given, it may still be doing after that run was killed."""
    with pytest.raises(Refusal) as refused:
        do(tmp_path, work("allocation.provide", provide_item()))
    assert refused.value.code == "host_busy"
    assert list(tmp_path.iterdir()) == []
    assert do(tmp_path, work("allocation.provide", provide_item()), dry=True)[0]["ok"]


def test_who_waits_has_his_turn(tmp_path: Path, taken: int) -> None:
    threading.Timer(0.3, fcntl.flock, (taken, fcntl.LOCK_UN)).start()
    assert do(tmp_path, work("allocation.provide", provide_item()))[0]["ok"]


STILL = """
import fcntl, os, time
fcntl.flock(os.open({folder!r}, os.O_RDONLY), fcntl.LOCK_EX)
os.fork() or time.sleep(600)
open({folder!r} + "/begun", "w").close()
time.sleep(600)
"""
MOVES = STILL.replace("os.fork() or time.sleep(600)\n", "").replace(
    "time.sleep(600)", "while True: pass"
)


@contextmanager
def earlier_run(
    folder: Path, *, still: bool, words: tuple[str, ...] = ("-IS", "-")
) -> Iterator[int]:
    """A run of before that has the turn; it moves, unless it is `still`."""
    script = STILL if still else MOVES
    text = script.format(folder=str(folder))
    run = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, start_new_session=True)
    assert run.stdin is not None
    run.stdin.write(text.encode())
    run.stdin.close()
    while not (folder / "begun").exists():
        time.sleep(0.01)
    (folder / "begun").unlink()
    try:
        yield run.pid
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def test_a_run_that_does_not_move_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-25: stopped, or asleep with all that it has started, for longer than who works."""
    monkeypatch.setattr(host_lock, "STILL_SECONDS", 0.5)
    for stopped in (False, True):
        with earlier_run(tmp_path, still=not stopped) as pid:
            if stopped:
                os.kill(pid, signal.SIGSTOP)
            below_it = host_lock.tree_of(pid)
            assert do(tmp_path, work("allocation.provide", provide_item()))[0]["ok"]
            assert all(is_over(one) for one in below_it)


def test_a_run_that_moves_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-25: and so is a stranger who has the lock, of whatever kind they are."""
    monkeypatch.setattr(host_lock, "STILL_SECONDS", 0.3)
    monkeypatch.setattr(host_lock, "PATIENCE_SECONDS", 1.0)
    for still, words in ((False, ("-IS", "-")), (True, ("-I", "-"))):
        with earlier_run(tmp_path, still=still, words=words) as pid:
            with pytest.raises(Refusal) as refused:
                do(tmp_path, work("allocation.provide", provide_item()))
            assert refused.value.code == "host_busy" and not is_over(pid)


def is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_run_that_nobody_hears_any_more_begins_nothing(tmp_path: Path) -> None:
    """F-REAL-25: it was given up while it waited, and something newer may stand there by now."""
    ends = os.pipe()
    script = (
        "import sys; sys.path[:0] = sys.argv[1:2]\n"
        "from gpuaas import host_lock\nfrom gpuaas.paths import Refusal, Tree\nimport os\n"
        "tree = Tree(os.open(sys.argv[2], os.O_RDONLY), False)\n"
        "try:\n    with host_lock.turn(tree): sys.exit(1)\n"
        "except Refusal as refusal: sys.exit(7 if refusal.code == 'host_busy' else 2)\n"
    )
    folder = str(Path(host_lock.__file__).parents[1])
    os.close(ends[0])
    run = subprocess.run([sys.executable, "-c", script, folder, str(tmp_path)], stdout=ends[1])
    os.close(ends[1])
    assert run.returncode == 7


@as_root
def test_tenants_cannot_take_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may open a lock may hold it: those of a whole host are root's alone, and stay so."""
    for module, name in ((host_lock, "one"), (settle, "two")):
        lock = tmp_path / name
        lock.touch(0o644)
        monkeypatch.setattr(module, "LOCK", str(lock))
    with host_lock.turn(Tree(os.open("/", os.O_RDONLY), dry=False)), settle.alone():
        pass
    assert {stat.S_IMODE(lock.stat().st_mode) for lock in tmp_path.iterdir()} == {0o600}


def test_nobody_is_placed_on_evidence_of_another_boot(tmp_path: Path) -> None:
    """Rule 7: what is taken away is taken away, and who would come is told to wait for a look."""
    entries = [
        work("access.sync", NO_KEYS, ref="allocation/vision/goes"),
        work("allocation.provide", provide_item()),
        work("access.sync", NO_KEYS),
    ]
    goes, comes, after = code.converge(str(tmp_path), "", entries, boot_id="another")
    assert goes["ok"]
    assert comes["problem"]["code"] == "host_rebooted"
    assert "not tried" in after["problem"]["message"]
    assert not below(tmp_path, "/home").exists()
    now = read_boot_id(Probes(str(tmp_path)))
    assert all(one["ok"] for one in code.converge(str(tmp_path), "", entries, boot_id=now))
