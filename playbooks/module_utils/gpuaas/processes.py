"""Processes of a uid: those that run as it in any way, and all that its slice holds."""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from contextlib import suppress
from typing import Iterable, Iterator, Optional

from .paths import Refusal, Tree, holder
from .probes import printable

PATIENCE_SECONDS, REST_SECONDS = 10.0, 0.3
UIDS = re.compile(r"^Uid:\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$", re.MULTILINE)
DEAD = re.compile(r"^State:\s+[ZX].*^Threads:\s+1$", re.MULTILINE | re.DOTALL)
"""A first thread that has ended alone is no ended process."""

NAME = re.compile(r"^Name:\s+(.*)$", re.MULTILINE)
GROUP = re.compile(r"^0::/(.*)$", re.MULTILINE)
UNITS = (".service", ".socket", ".mount", ".scope")
SLICE = re.compile(r"user\.slice/user-(\d+)\.slice(?:/|$)")
SESSION = re.compile(r"session-[^/]*\.scope|init\.scope")
MAX_NAME = 100
OWN_MANAGER = re.compile(r"user@\d+\.service")


def running(root: str, uid: int) -> dict[int, str]:
    """pid → name, by real, effective, saved and file system uid, and by the slice.

    The numbers inside of its containers are its own. One that has ended and only waits for its
    parent to hear of it holds nothing any more.
    """
    return {
        pid: name
        for pid, name, uids in alive(root)
        if _is_of(uid, uids) or slice_of(root, pid) == uid
    }


def alive(root: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """pid, name and the four uids of every process that has not ended."""
    for pid in os.listdir(os.path.join(root, "proc")):
        if pid.isdigit():
            status = _status(root, pid)
            uids = UIDS.search(status)
            if uids is not None and not DEAD.search(status):
                called = NAME.search(status)
                yield int(pid), printable(called.group(1)) if called else "?", uids.groups()


def end_all(tree: Tree, uid: int) -> None:
    """Raises Refusal where one keeps coming back; a process that ignores signals does not."""
    found = running("/", uid)
    tree.changed = tree.changed or bool(found)
    until = time.monotonic() + PATIENCE_SECONDS
    while found and not tree.dry:
        if time.monotonic() > until:
            refuse(found)
        _end(uid, found)
        time.sleep(0.05)
        # What is started anew is so a moment later.
        found = running("/", uid) or _after(REST_SECONDS, uid)


def unit_of(root: str, pid: int) -> str:
    """The unit of the host that started it, and may start it again; none for what a login has.

    What is below the first unit of the host is called as whoever it is of likes. Below a user
    manager it is told as that one's own: the host may have one of the same name.
    """
    units = [part for part in _way(root, pid).split("/") if part.endswith(UNITS)]
    if not units or SESSION.fullmatch(units[0]):
        return ""
    if OWN_MANAGER.fullmatch(units[0]):
        own = [part for part in units[1:] if not part.endswith(".scope")]
        return f"{units[0]} (its own {printable(own[-1])[:MAX_NAME]})" if own else ""
    return printable(units[0])[:MAX_NAME]


def told(root: str, pid: int, name: str) -> str:
    unit = unit_of(root, pid)
    return f"{pid} {name}" + (f" of {unit}" if unit else "")


def refuse(found: dict[int, str]) -> None:
    """Raises Refusal if there are any, each with the unit that starts it, if one does."""
    if found:
        named = ", ".join(told("/", pid, name) for pid, name in sorted(found.items())[:10])
        raise Refusal("processes_left", f"still there after being ended: {named}")


def _after(seconds: float, uid: int) -> dict[int, str]:
    time.sleep(seconds)
    return running("/", uid)


def _end(uid: int, found: dict[int, str]) -> None:
    """The whole slice at once, so that nothing forks away, and then one by one."""
    with suppress(OSError), open(f"{slice_folder('/', uid)}/cgroup.kill", "w") as file:
        file.write("1")
    tell(uid, found, signal.SIGKILL)


def tell(uid: int, pids: Iterable[int], what: signal.Signals) -> None:
    """A signal to processes that still are of this uid, and to no other."""
    for pid in pids:
        with suppress(OSError):
            process = os.pidfd_open(pid)
            try:
                # The number may have gone to somebody else between the look and the opening.
                uids = UIDS.search(_status("/", str(pid)))
                if uids is not None and _is_of(uid, uids.groups()):
                    signal.pidfd_send_signal(process, what)
            finally:
                os.close(process)


def _is_of(uid: int, uids: Iterable[str]) -> bool:
    return any(holder(int(one)) == uid for one in uids)


def slice_folder(root: str, uid: int) -> str:
    return os.path.join(root, f"sys/fs/cgroup/user.slice/user-{uid}.slice")


def slice_of(root: str, pid: int) -> Optional[int]:
    """The uid of the slice that holds it. Asked of the process: groups may be made without end."""
    found = SLICE.match(_way(root, pid))
    return int(found.group(1)) if found else None


def _way(root: str, pid: int) -> str:
    """Its group, from the root of all groups on; empty for one that has just ended.

    The kernel names none that is too long for a path. Such a one is made below a slice by whoever
    has it, and moves nobody else's processes there: these are known by their uids.
    """
    try:
        with open(os.path.join(root, "proc", str(pid), "cgroup"), errors="replace") as file:
            found = GROUP.search(file.read())
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENAMETOOLONG):
            return ""
        raise
    return found.group(1) if found else ""


def _status(root: str, pid: str) -> str:
    """Empty for one that has just ended."""
    try:
        with open(os.path.join(root, "proc", pid, "status"), errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
