"""The work folder of one call to hosts; it is removed with the call and the call's processes.

A process that is killed leaves its folder; the next call takes it away. Who works for a call has
the folder's path in their environment, and is ended by it where nobody is left to do so.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.hosts.folders import short_folder, workplace
from reconciler.hosts.ssh.ssh import PERSIST_SECONDS
from reconciler.tries import tries

PREFIX = "call-"
MARK = "GPUAAS_CALL"
LEFT_OUT = (
    *("DISPLAY", "WAYLAND_DISPLAY", "SSH_ASKPASS", "LANG", "LANGUAGE"),
    *("LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME", "LC_MONETARY"),
)
STATED = ("LC_ALL=C.UTF-8", "SSH_ASKPASS_REQUIRE=never")
"""Of the environment of programs that speak to hosts."""

SOCKETS = "/proc/net/unix"
ENDING_SECONDS, REST_SECONDS = 5.0, 0.01
"""Who is ended by force may still have to come back from a disk."""


@contextmanager
def passing() -> Iterator[Path]:
    """A private folder for as long as this lasts. Raises ProblemError `run_folder_unusable`."""
    with workplace():
        clear()
        clear_sockets()
        folder, hold = _held()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(hold)


def clear() -> None:
    """End what is left of calls whose process has died."""
    for folder in short_folder().glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):
            hold = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _is_ours(hold):
                    end_workers(folder)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(hold)


def clear_sockets() -> None:
    """Take away the names of kept connections whose ssh died without doing so.

    The kernel knows who listens: to knock at one that lives would keep it alive for ever.
    """
    with suppress(OSError), open(SOCKETS, encoding="utf-8", errors="surrogateescape") as file:
        # ssh listens under a name of its own and then gives it the one that others know.
        listening = {Path(line.split()[-1]).stem for line in file}
        old = time.time() - PERSIST_SECONDS
        for path in short_folder().iterdir():
            found = path.lstat()
            dead = path.stem not in listening and found.st_mtime < old
            if dead and stat.S_ISSOCK(found.st_mode):
                path.unlink()


def marked(command: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The command, for who works for the call of this folder.

    It asks nobody by a window, and has no language to hand on to a host.
    """
    return ("env", *(f"--unset={name}" for name in LEFT_OUT), *STATED, f"{MARK}={folder}", *command)


def end_workers(folder: Path) -> None:
    """End every process that works for this call, as far as force can bring that about."""
    for _ in tries(ENDING_SECONDS, rest=REST_SECONDS):
        if not (found := _workers(folder)):
            return
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _workers(folder: Path) -> list[int]:
    """Living processes of ours with the mark of this call; the dead have no environment.

    Who has not begun yet has it as an argument of `env`.
    """
    mark = os.fsencode(f"{MARK}={folder}\0")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with (
            suppress(OSError),
            open(f"/proc/{name}/environ", "rb") as given,
            open(f"/proc/{name}/cmdline", "rb") as words,
        ):
            if mark in given.read() or mark in words.read():
                found.append(int(name))
    return found


def _held() -> tuple[Path, int]:
    """A new folder, and the descriptor that says for as long as we live that it is in use."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=short_folder()))
        with suppress(FileNotFoundError):
            hold = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(hold, fcntl.LOCK_EX)
            # Before it was held, somebody may have taken it for one that was left.
            if folder.exists():
                return folder, hold
            os.close(hold)


def _is_ours(hold: int) -> bool:
    try:
        fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
