"""The host lock: one run at a time works on a host, however many were started.

A run whose control machine was cut off or killed works on to the end of what it was given, and is
waited for. One that does not move any more is ended by the next, which does the work anew.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from contextlib import contextmanager, suppress
from typing import Dict, Iterator, List, Optional, Set, Tuple

from .paths import FOLDER, Refusal, Tree

LOCK = "/run/gpuaas-converge.lock"
PATIENCE_SECONDS, REST_SECONDS = 45.0, 0.1
STILL_SECONDS = 20.0
"""Longer than this nobody is still who works: neither a processor nor a disk is used for it."""

STOPPED = "Tt"


@contextmanager
def turn(tree: Tree) -> Iterator[None]:
    """Nobody else works here meanwhile. Raises Refusal where an earlier run does not end."""
    lock = _open(tree)
    try:
        _wait(lock)
        if _is_unheard():
            raise Refusal("host_busy", "nobody waits for this run any more; nothing was touched")
        yield
    finally:
        os.close(lock)


def _wait(lock: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    watch = Watch(lock)
    while not is_ours(lock):
        if time.monotonic() > until:
            raise Refusal("host_busy", "an earlier run is still at work; nothing was touched")
        watch.end_if_still()
        time.sleep(REST_SECONDS)


class Watch:
    """Whoever has the turn, and when it was last seen to move."""

    def __init__(self, lock: int) -> None:
        found = os.fstat(lock)
        self._file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        self._seen: Optional[Tuple[object, ...]] = None
        self._since = time.monotonic()

    def end_if_still(self) -> None:
        pid = holder_of(self._file)
        now = moved(pid) if pid else None
        if now is None or now != self._seen:
            self._seen, self._since = now, time.monotonic()
        elif time.monotonic() - self._since > STILL_SECONDS and pid and is_a_run(pid):
            end(pid)


def holder_of(file: str) -> Optional[int]:
    """The process that has the lock on this file, as far as the kernel shows it."""
    with suppress(OSError), open("/proc/locks", encoding="ascii") as locks:
        for line in locks:
            words = line.split()
            if len(words) >= 6 and words[1] == "FLOCK" and words[5] == file and int(words[4]) > 0:
                return int(words[4])
    return None


def is_a_run(pid: int) -> bool:
    """Whether it was started as this code is; whoever else holds a lock of this file stays."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return pid != os.getpid() and file.read().split(b"\0")[1:3] == [b"-IS", b"-"]
    return False


def moved(pid: int) -> Optional[Tuple[object, ...]]:
    """What tells of all that works for it whether it moves; None if it has gone."""
    found: List[object] = []
    for one in sorted(tree_of(pid)):
        with suppress(OSError):
            with open(f"/proc/{one}/stat", encoding="latin-1") as file:
                words = file.read().rpartition(")")[2].split()
            used = words[11:13]
            with open(f"/proc/{one}/io", encoding="ascii") as file:
                used += file.read().split()
            found.append((one, words[19], "stopped" if words[0] in STOPPED else "", *used))
    return tuple(found) or None


def end(pid: int) -> None:
    """It and all that it has started: what they had in hand is done anew by whoever comes next."""
    for one in sorted(tree_of(pid)):
        with suppress(OSError):
            os.kill(one, signal.SIGKILL)


def tree_of(pid: int) -> Set[int]:
    children: Dict[int, List[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, IndexError), open(f"/proc/{name}/stat", encoding="latin-1") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, todo = set(), [pid]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += children.get(one, [])
    return found


def _is_unheard() -> bool:
    """Whether whoever was to read the answer has gone: it was given up while it waited."""
    told = select.poll()
    told.register(1, 0)
    return any(event & select.POLLERR for _, event in told.poll(0))


def _open(tree: Tree) -> int:
    """Of a whole host a file that tenants cannot open: whoever can open it could hold us up."""
    if not tree.whole_host:
        return os.open(".", FOLDER, dir_fd=tree.root)
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(lock, 0o600)
    return lock


def is_ours(lock: int) -> bool:
    """Whether this process has a lock, which is taken where nobody else has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
