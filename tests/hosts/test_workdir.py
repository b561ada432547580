"""What a call to hosts leaves on this machine when its process is killed, and where that goes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.hosts.workdir import MARK, clear, end_workers, passing

CALLER = """
import subprocess, sys
from reconciler.hosts.workdir import marked, passing
with passing() as folder:
    (folder / "inventory").write_text("work")
    quiet = {"stdout": subprocess.DEVNULL, "start_new_session": True}
    worker = subprocess.Popen(marked(("sleep", "300"), folder), **quiet)
    print(folder, worker.pid, flush=True)
    sys.stdin.read()
"""


@contextmanager
def caller() -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """A process in the middle of a call, the call's folder, and the id of who works for it."""
    process = subprocess.Popen(
        [sys.executable, "-c", CALLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        folder, worker = process.stdout.readline().split()
        try:
            yield process, Path(folder), int(worker)
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.kill(int(worker), signal.SIGKILL)


def works(pid: int) -> bool:
    """Whoever is killed on a busy machine needs a moment to end."""
    until = time.monotonic() + 5
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return runs(pid)


def runs(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_folder_is_private_and_goes_with_its_call() -> None:
    """F-ANS-04, F-ANS-07."""
    with passing() as one, passing() as two:
        assert one != two
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
        (one / "inventory").write_text("work")
    assert not one.exists() and not two.exists()


def test_what_a_killed_process_has_left_goes_with_the_next_call() -> None:
    """F-ANS-06, F-ANS-07: its folder, and who still works for it; a living one's stay."""
    with caller() as (dead, left, orphan), caller() as (_, kept, busy):
        dead.kill()
        dead.wait()
        assert left.exists() and runs(orphan)
        with passing():
            assert not left.exists() and not works(orphan)
            assert kept.exists() and runs(busy)


def test_nobody_is_ended_but_who_works_for_this_call(tmp_path: Path) -> None:
    """F-ANS-06: not even one whose call has a name that begins with the same letters."""
    folders = (tmp_path / "call-1", tmp_path / "call-12")
    mine, other = (
        subprocess.Popen(("sleep", "300"), env={MARK: str(folder)}) for folder in folders
    )
    with mine, other:
        end_workers(folders[0])
        assert mine.wait() == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


def test_who_has_not_begun_yet_is_ended_too(tmp_path: Path) -> None:
    """F-ANS-06, F-REAL-28: on a busy machine `env` is killed before it has become the worker."""
    script = "import signal; signal.pause()"
    early = subprocess.Popen([sys.executable, "-c", script, f"{MARK}={tmp_path}"])
    with early:
        end_workers(tmp_path)
        assert early.wait(10) == -signal.SIGKILL


def test_two_who_clear_at_once_are_in_nobodys_way() -> None:
    with caller() as (dead, left, _):
        dead.kill()
        dead.wait()
        script = "from reconciler.hosts.workdir import clear; clear()"
        both = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
        assert [process.wait() for process in both] == [0, 0]
        clear()
        assert not left.exists()
