"""Presence: one loop for each state, who runs it, and what it is doing (F-REC-07, -08).

The kernel holds the lock, so it dies with its holder. The file beside tells of the last round and
of the next: by it a loop that hangs is told from one that sleeps.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from reconciler.atomic_file import write_file
from reconciler.model.codec import decode, encode
from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import insist_on_state
from reconciler.operations.liveness.lease import LOCK, is_held
from reconciler.tries import tries

FILE = "loop.json"
FILE_MODE = 0o644
ASKED_SECONDS, ASK_SECONDS = 1.0, 0.05
ENDED = "ended"
"""The phase of a loop that ended because somebody wished it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What a loop says of itself. `next_at` is empty while a round is in hand, which is at `phase`.

    `said_at` is when it said so last. `degraded` says why it does less than it should.
    """

    pid: int
    actor: str
    since: str
    said_at: str
    interval_seconds: int
    phase: str = ""
    next_at: str = ""
    commit: str = ""
    source: str = ""
    rounds: int = 0
    degraded: str = ""
    last: Mapping[str, object] | None = None


@contextmanager
def alone(fleet: Fleet) -> Iterator[None]:
    """Hold the loop's lock. Raises ProblemError `loop_running`, which names who has it.

    Whoever only asks whether it is held has it for a moment.
    """
    insist_on_state(fleet)
    path = fleet.state / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        for _ in tries(ASKED_SECONDS, rest=ASK_SECONDS):
            if _taken(handle):
                break
        else:
            who = os.pread(handle, 256, 0).decode("utf-8", "replace").strip() or "somebody"
            raise refuse(
                "loop_running",
                f"a loop is at work on this state: {who}",
                "it does what you ask for: gpuaas reconcile --wake",
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{fleet.actor.name}, pid {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def tell(fleet: Fleet, said: Presence) -> None:
    """Written whole or not at all. Where there is no room for it the work goes on."""
    with suppress(OSError):
        content = json.dumps(encode(said)).encode()
        write_file(fleet.state / FILE, content, mode=FILE_MODE, durable=False)


def read_presence(fleet: Fleet) -> Presence | None:
    """What the last loop said; None if there never was one, or its word is damaged."""
    try:
        return decode(Presence, json.loads((fleet.state / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def wake(fleet: Fleet) -> int:
    """Let the loop begin a round now; its pid. Raises ProblemError `not_found` if there is none.

    The signal goes to the process that holds the lock, and only if it listens for it: any other,
    as one that has the pid of a loop that is gone, would be ended by it.
    """
    if not os.access(fleet.state, os.X_OK) and fleet.state.exists():
        raise _unwakeable(f"it may not look into {fleet.state}")
    said = read_presence(fleet)
    if said is None or not is_held(fleet):
        raise refuse("not_found", "no loop is running", "start one: gpuaas reconcile")
    try:
        process = os.pidfd_open(said.pid)
        try:
            if not (_is_holder(fleet, said.pid) and _listens(said.pid)):
                raise ProcessLookupError
            signal.pidfd_send_signal(process, signal.SIGUSR1)
        finally:
            os.close(process)
    except ProcessLookupError:
        message = "what is at work on this state is no loop that sleeps between rounds"
        raise refuse("not_found", message, "once it is done: gpuaas reconcile") from None
    except OSError as error:
        raise _unwakeable(error.strerror or str(error)) from None
    return said.pid


def _unwakeable(why: str) -> ProblemError:
    message = f"the loop cannot be woken by this user: {why}"
    return refuse("os_refused", message, "as whoever runs it: gpuaas reconcile --wake")


def _is_holder(fleet: Fleet, pid: int) -> bool:
    try:
        text = (fleet.state / LOCK).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.strip().endswith(f", pid {pid}") and is_held(fleet)


def _listens(pid: int) -> bool:
    """Whether it catches SIGUSR1, by proc(5)."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    caught = text.partition("SigCgt:")[2].split()[:1]
    return bool(caught) and bool(int(caught[0], 16) >> (signal.SIGUSR1 - 1) & 1)


def moment(now: datetime, seconds: float) -> str:
    return format_moment(now + timedelta(seconds=seconds))
