"""The lock: one writer at a time. The kernel holds it, so that it dies with its holder.

It is on the state's folder, which nobody takes away without the state. A file beside says who
holds it, for people; whether it is held, and whether its holder lives, only the kernel says.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from reconciler.model.moment import format_moment
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.state.lock import NO_PATIENCE, LockHolder, LockPatience
from reconciler.stops import reach
from reconciler.store.file.errors import LOST_OR_NEW, os_problem

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PAUSE, MOMENT = 0.1, 0.01
NAMING_SECONDS = 0.5
"""So long a holder may take from the lock to their name."""
YIELDING, YIELD_SECONDS = "which gives way", 30.0
"""What the name of a holder ends with who only waits, and so long they may take to give way."""
LOOP = "reconcile"
"""The command of a loop, whose rounds come by themselves and are short."""
NAMELESS = "a process that has not said its name"

_held: set[int] = set()


class StateLock:
    """`with StateLock(path, actor=…, command=…)`: held inside, by this process alone.

    `left_behind` is then the holder before, if they died without leaving. Their name comes back
    when the lock is given up, unless somebody said by `told()` that they are written down.
    """

    def __init__(
        self, path: Path, *, actor: str, command: str, patience: LockPatience = NO_PATIENCE
    ) -> None:
        self._path = path
        self._actor = actor
        self._command = command
        self._patience = patience
        self._folder = -1
        self.left_behind: LockHolder | None = None

    def __enter__(self) -> StateLock:
        folder = _open(self._path.parent)
        try:
            self._wait(folder)
            self.left_behind = _read(self._path)
            _unwant(self._path)
            _write(self._path, _myself(self._actor, self._command))
            reach("lock.taken")
        except BaseException:
            _close(folder)
            raise
        self._folder = folder
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # A name that stays there does not keep anybody out.
            with suppress(ProblemError):
                _write(self._path, self.left_behind)
        finally:
            _close(self._folder)

    def told(self) -> None:
        """The holder before is written down; nobody else need be told of them."""
        self.left_behind = None

    def _wait(self, folder: int) -> None:
        """Wait until the lock is ours. Raises ProblemError `state_locked` when patience has
        ended.
        """
        began = time.monotonic()
        told = ""
        while not _take(folder):
            who, waited = holder(self._path), time.monotonic() - began
            if who is None and waited < NAMING_SECONDS:
                time.sleep(MOMENT)
                continue
            want(self._path)
            gives_way = who is not None and who.command.endswith(YIELDING)
            patience = max(self._patience.seconds, YIELD_SECONDS if gives_way else 0.0)
            if who is not None and who.command == LOOP:
                patience = max(patience, self._patience.of_a_round)
            if waited >= patience or self._patience.stop():
                raise _locked(who, self._path, self._patience.seconds)
            if (words := _told(who)) != told:
                self._patience.tell(words)
                told = words
            time.sleep(PAUSE)


def _told(who: LockHolder | None) -> str:
    """Of whom is waited for; one that is stopped is waited for in vain."""
    if who is None or not is_stopped(who.pid):
        return str(who or NAMELESS)
    return f"{who}, which is stopped; to let it go on: kill -CONT {who.pid}"


def give_way(path: Path) -> None:
    """While this process only waits for hosts, it gives the lock to whoever wants it."""
    who = holder(path)
    if who is not None and who.pid == os.getpid():
        _unwant(path)
        _write(path, replace(who, command=f"{who.command}, {YIELDING}"))


def is_wanted(path: Path) -> bool:
    """Whether somebody has wanted the lock since its holder has begun to give way."""
    return _wanted(path).exists()


def is_waited_for(path: Path) -> bool:
    """Whether somebody waits for the lock at this moment."""
    if not is_wanted(path):
        return False
    _unwant(path)
    time.sleep(3 * PAUSE)
    return is_wanted(path)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """For a moment nobody else writes in `folder`; whoever does is waited for, and not named."""
    number = _open(folder)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        _close(number)


def holder(path: Path) -> LockHolder | None:
    """Who holds the lock now, without touching it; None if nobody does."""
    found = _read(path)
    return found if found and lives(found) else None


def lives(who: LockHolder) -> bool:
    """Whether it is this very process; another one with the same pid is not."""
    same = who.host == os.uname().nodename and who.boot_id == _boot_id()
    return same and who.start != 0 and who.start == _start_of(who.pid)


def left_behind(path: Path, id_: str = "") -> LockHolder:
    """The dead holder whose name still stands in the lock. Nothing is changed.

    Raises ProblemError `state_locked` while somebody holds it, `lock_other` if its id is not
    `id_`, `state_not_locked` if there is none.
    """
    folder = _open(path.parent)
    try:
        free, found = _take(folder), _read(path)
    finally:
        _close(folder)
    if found is not None and id_ and found.id != id_:
        raise refuse(
            "lock_other",
            f"lock {id_} is over: this one is of {found}",
            "if that is the one you mean, name its id",
        )
    if not free:
        raise _locked(found if found and lives(found) else None, path)
    if found is None:
        raise refuse("state_not_locked", "nobody holds the lock", "nothing needs to be done")
    return found


def _wanted(path: Path) -> Path:
    return path.with_name("wanted")


def want(path: Path) -> None:
    """Say that somebody waits: seen by a holder who gives way, and by nobody else."""
    with suppress(OSError):
        _wanted(path).touch(0o600)


def _unwant(path: Path) -> None:
    with suppress(OSError):
        _wanted(path).unlink()


def _open(folder: Path) -> int:
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise refuse(
            "state_missing",
            f"{folder}: there is no state",
            LOST_OR_NEW,
        ) from error
    except OSError as error:
        raise os_problem(error, folder) from error
    _held.add(number)
    return number


def _close(folder: int) -> None:
    _held.discard(folder)
    os.close(folder)


def _leave_to_parent() -> None:
    """A process that was forked holds nothing: it may outlive the one that does."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_leave_to_parent)


def _take(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _myself(actor: str, command: str) -> LockHolder:
    return LockHolder(
        id=os.urandom(4).hex(),
        pid=os.getpid(),
        start=_start_of(os.getpid()),
        host=os.uname().nodename,
        boot_id=_boot_id(),
        since=format_moment(datetime.now(UTC)),
        actor=actor,
        command=command,
    )


def _write(path: Path, who: LockHolder | None) -> None:
    text = json.dumps(asdict(who)).encode() if who else b""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text)
        finally:
            os.close(file)
    except OSError as error:
        raise os_problem(error, path) from error


def _read(path: Path) -> LockHolder | None:
    """None for no file, for an empty one, and for one that a crash left half written."""
    try:
        return LockHolder(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
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


def is_stopped(pid: int) -> bool:
    """Whether a process of this machine stands still, by Ctrl-Z or a signal of its like."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[:1] in (["T"], ["t"])


def _locked(who: LockHolder | None, path: Path, waited: float = 0.0) -> ProblemError:
    last = _read(path)
    if who and is_stopped(who.pid):
        problem = Problem(
            code="state_locked",
            message=f"{who} holds it and is stopped, as by Ctrl-Z: it goes on with nothing",
            hint=f"let it go on: kill -CONT {who.pid}, or fg in its terminal; or end it",
            holder=who,
        )
        return ProblemError((problem,))
    known = str(who) if who else f"{NAMELESS}; the last that did is {last}" if last else NAMELESS
    after = f"after {waited:g} s of waiting " if waited else ""
    problem = Problem(
        code="state_locked",
        message=f"{after}held by {known}",
        hint="wait for it with --lock-timeout=5m, or end it; to shut somebody out waits for nobody:"
        " gpuaas suspend",
        holder=who,
    )
    return ProblemError((problem,))
