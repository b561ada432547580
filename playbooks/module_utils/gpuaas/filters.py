"""Device filters as the kernel has them, tried from within a tenant's own slice.

systemd makes a filter of the numbers that nodes have when the slice starts, and keeps it: what it
was told does not say what has become of a node that a driver made anew. Asking for access meets
the same filter as opening does, and wakes up no card.
"""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import select
import signal
import time
from contextlib import suppress
from typing import Iterable, Iterator, Union

from .paths import Refusal
from .probes import BUDGET
from .processes import slice_folder
from .programs import must

NODES = ("dev/nvidia[0-9]*", "dev/nvidiactl", "dev/nvidia-uvm")
GROUP = "gpuaas-look"
SECONDS, ONE_SECONDS = 10.0, 3.0
"""For all tenants, and for each of them."""

MAX_ANSWER = 1 << 20

CONTROL = "/run/systemd/system.control"

LetThrough = dict[int, Union[frozenset[str], str]]


def let_through(root: str, uids: Iterable[int]) -> LetThrough:
    """Uid → the nodes of GPUs that it may open, or why nobody can say.

    Of a slice in which nothing runs there is no filter: it is made when somebody logs in.
    """
    living = [uid for uid in uids if os.path.isdir(slice_folder(root, uid))]
    nodes = [f"/{os.path.relpath(path, root)}" for path in _nodes(root)]
    if not living or not nodes:
        return {}
    told = _told_by_child(root, living, nodes)
    return {
        uid: frozenset(one) if isinstance(one, list) else str(one)
        for uid, one in ((int(uid), one) for uid, one in told.items())
    }


def renew(uid: int) -> None:
    """The filter is made again of the numbers that the nodes have now.

    Only what is set on a living unit makes systemd do so; what it keeps of that is taken away.
    """
    unit = f"user-{uid}.slice"
    must("systemctl", "set-property", "--runtime", unit, "DevicePolicy=closed")
    kept = f"{CONTROL}/{unit}.d"
    with suppress(FileNotFoundError):
        os.unlink(f"{kept}/50-DevicePolicy.conf")
    with suppress(OSError):
        os.rmdir(kept)
    must("systemctl", "daemon-reload")


def needs_renewal(uid: int, given: Iterable[str]) -> bool:
    """Whether the filter of this living slice is another than one of these nodes would be."""
    found = let_through("/", [uid]).get(uid)
    if isinstance(found, str):
        raise Refusal("verb_failed", f"the devices of user-{uid}.slice: {found}")
    there = {f"/{path.lstrip('/')}" for path in _nodes("/")}
    return found is not None and found != there & set(given)


def is_of_gpus(node: str) -> bool:
    return any(fnmatch.fnmatchcase(node[1:], one) for one in NODES)


def _nodes(root: str) -> list[str]:
    return sorted(path for one in NODES for path in glob.glob(os.path.join(glob.escape(root), one)))


def _told_by_child(root: str, uids: list[int], nodes: list[str]) -> dict[str, object]:
    """By processes that go from slice to slice; the next goes on behind a slice that kept one."""
    until = time.monotonic() + BUDGET.left(SECONDS)
    told, left = dict[str, object](), list(uids)
    while left:
        lines = _lines_of_child(root, left, nodes, until)
        told.update(one for line in lines for one in json.loads(line).items())
        left = [uid for uid in left if str(uid) not in told]
        if left:
            told[str(left.pop(0))] = "unknown: whoever tried the devices did not come back"
    return {uid: one for uid, one in told.items() if one is not None}


def _lines_of_child(root: str, uids: list[int], nodes: list[str], until: float) -> list[bytes]:
    """A line for each uid, up to the one that took too long or ended whoever tried."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(reader)
            for uid, one in _tried(root, uids, nodes):
                os.write(writer, json.dumps({uid: one}).encode("ascii") + b"\n")
        os._exit(0)
    os.close(writer)
    try:
        return _read(reader, until)
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for each in uids:
            _remove(f"{slice_folder(root, each)}/{GROUP}.{child}")


def _read(reader: int, until: float) -> list[bytes]:
    """Whole lines, as long as one follows another in time."""
    answer = b""
    patience = time.monotonic() + ONE_SECONDS
    while len(answer) < MAX_ANSWER:
        left = min(until, patience) - time.monotonic()
        ready, _, _ = select.select([reader], [], [], max(0.0, left))
        chunk = os.read(reader, 1 << 16) if ready else b""
        if not chunk:
            break
        answer += chunk
        if chunk.endswith(b"\n"):
            patience = time.monotonic() + ONE_SECONDS
    return answer.split(b"\n")[:-1]


def _tried(root: str, uids: list[int], nodes: list[str]) -> Iterator[tuple[str, object]]:
    home = f"{root}/sys/fs/cgroup{_own_group()}"
    for uid in uids:
        group = f"{slice_folder(root, uid)}/{GROUP}.{os.getpid()}"
        found: object
        try:
            os.mkdir(group, 0o700)
            _enter(group)
            found = [node for node in nodes if _may_open(root, node)]
        except FileNotFoundError:
            found = None
        except OSError as error:
            found = f"unknown: {error.strerror}"
        finally:
            with suppress(OSError):
                _enter(home)
            _remove(group)
        # Outside again: within, the room of a tenant may be used up.
        yield str(uid), found


def _may_open(root: str, node: str) -> bool:
    """What is not there is not kept from anybody."""
    path = os.path.join(root, node[1:])
    return os.access(path, os.R_OK | os.W_OK) or not os.path.exists(path)


def _own_group() -> str:
    with open("/proc/self/cgroup", encoding="ascii", errors="replace") as file:
        return next((line.strip()[3:] for line in file if line.startswith("0::")), "/")


def _enter(group: str) -> None:
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
        file.write("0")


def _remove(group: str) -> None:
    for _ in range(20):
        try:
            os.rmdir(group)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
        else:
            return
