"""The lock: one writer at a time. The kernel holds it, so that it dies with its holder.

The file says who holds it, for people; whether it is held, only the kernel says. The file itself
is never removed: two processes could then lock two files of one name.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError, refuse
from reconciler.stops import reach
from reconciler.store.refusals import os_problem

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who wrote his name into the lock; `start` and `boot_id` tell his pid from a later one."""

    pid: int
    start: int
    host: str
    boot_id: str
    since: str
    actor: str
    command: str

    def __str__(self) -> str:
        return f"{self.actor} ({self.command}, pid {self.pid} on {self.host}, since {self.since})"

    @property
    def lives(self) -> bool:
        """Whether it is this very process; another one with the same pid is not."""
        same = self.host == socket.gethostname() and self.boot_id == _boot_id()
        return same and self.start != 0 and self.start == _start_of(self.pid)


class StateLock:
    """`with StateLock(path, actor=…, command=…)`: held inside, by this process alone.

    `left_behind` is then the holder before, if he died without leaving.
    """

    def __init__(self, path: Path, *, actor: str, command: str) -> None:
        self._path = path
        self._actor = actor
        self._command = command
        self._file = -1
        self.left_behind: Holder | None = None

    def __enter__(self) -> StateLock:
        file = _open(self._path)
        try:
            if not _take(file):
                raise _locked(_read(file))
            self.left_behind = _read(file)
            _write(file, self._path, _myself(self._actor, self._command))
            reach("lock.taken")
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.ftruncate(self._file, 0)
        os.close(self._file)


def holder(path: Path) -> Holder | None:
    """Who holds the lock now, without touching it; None if nobody does."""
    try:
        found = _parse(path.read_bytes())
    except OSError:
        return None
    return found if found and found.lives else None


def unlock(path: Path) -> Holder:
    """Clear a lock that a dead process left behind; it is told who that was.

    Raises ProblemError `state_locked` while the holder lives, `state_not_locked` if there is none.
    """
    if not path.exists():
        raise _not_locked()
    file = _open(path)
    try:
        found = _read(file)
        if not _take(file):
            raise _locked(found)
        if found is None:
            raise _not_locked()
        os.ftruncate(file, 0)
        return found
    finally:
        os.close(file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError as error:
        raise refuse(
            "state_missing",
            f"{path.parent}: there is no state",
            "lost? `gpuaas state restore FILE`. A new fleet? `gpuaas state init --new`",
        ) from error
    except OSError as error:
        raise os_problem(error, path) from error


def _take(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _myself(actor: str, command: str) -> Holder:
    return Holder(
        pid=os.getpid(),
        start=_start_of(os.getpid()),
        host=socket.gethostname(),
        boot_id=_boot_id(),
        since=format_moment(datetime.now(UTC)),
        actor=actor,
        command=command,
    )


def _write(file: int, path: Path, who: Holder) -> None:
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(asdict(who)).encode(), 0)
    except OSError as error:
        raise os_problem(error, path) from error


def _read(file: int) -> Holder | None:
    return _parse(os.pread(file, 65536, 0))


def _parse(text: bytes) -> Holder | None:
    """None for an empty file, and for one that a crash left half written."""
    try:
        return Holder(**json.loads(text))
    except (ValueError, TypeError):
        return None


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_of(pid: int) -> int:
    """When a process started, in ticks since boot; 0 if there is none or nobody can say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The command in brackets may hold spaces and brackets itself; start time is the 20th after it.
    return int(text.rpartition(")")[2].split()[19])


def _locked(who: Holder | None) -> ProblemError:
    return refuse(
        "state_locked",
        f"held by {who}" if who else "held by a process that has not said its name",
        "wait for it to end; the lock goes with it",
    )


def _not_locked() -> ProblemError:
    return refuse("state_not_locked", "nobody holds the lock", "nothing needs to be done")
