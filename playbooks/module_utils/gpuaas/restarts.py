"""Restart marks: which generation of an allocation was reached, and what is older than it.

A mark is written before anything ends and again when all has ended, so that a restart that was
broken off can be told from one that is through, and neither is ever done twice.
"""

from __future__ import annotations

import json
import os
import re
from typing import NamedTuple, Optional

from .machine import read_boot_id
from .probes import ProbeError, Probes, open_below, opener, printable, shortened
from .processes import running

FOLDER, ENDING = "etc/gpuaas/runtime/allocations", ".restart"
BEGUN, ORDERED, DONE = "begun", "ordered", "done"
"""Things are being ended; the host was told to start anew; all has ended."""

BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Mark(NamedTuple):
    """`uptime` is the second of the boot `boot_id` after which nothing older was left."""

    generation: int
    state: str
    uid: int
    boot_id: str
    uptime: float


NEVER = Mark(0, DONE, 0, "", 0.0)


def text_of(mark: Mark) -> str:
    return json.dumps(mark._asdict(), sort_keys=True) + "\n"


def mark_of(text: str) -> Mark:
    """Raises ProbeError for what is none."""
    try:
        mark = Mark(**json.loads(text))
        kinds = [type(value) for value in mark]
    except (TypeError, ValueError, RecursionError) as error:
        raise ProbeError(f"no mark of a restart: {error}") from error
    if kinds != [int, str, int, str, float] or mark.state not in (BEGUN, ORDERED, DONE):
        raise ProbeError("no mark of a restart")
    return mark


def boot_of(probes: Probes) -> str:
    """Raises ProbeError for what is no boot id, such as the words of an error."""
    found = read_boot_id(probes)
    if not BOOT_ID.fullmatch(found):
        raise ProbeError(f"no boot id: {found}")
    return found


def read_uptime() -> float:
    with open("/proc/uptime") as file:
        return float(file.read().split()[0])


def read_restarts(probes: Probes) -> dict[str, str]:
    """Allocation id → `generation 3`, with a word behind it as long as it is not through."""
    folder = open_below(probes.root, FOLDER)
    if folder is None:
        return {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(ENDING))
        return {printable(name[: -len(ENDING)]): fact_of(probes, folder, name) for name in names}
    finally:
        os.close(folder)


def fact_of(probes: Probes, folder: int, name: str) -> str:
    try:
        with open(name, opener=opener(folder), errors="replace") as file:
            mark = mark_of(file.read(4096))
        why = what_is_missing(probes, mark)
    except (OSError, ProbeError) as error:
        return printable(f"unknown: {error}")[:300]
    return f"generation {mark.generation}" + (f" {why}" if why else "")


def what_is_missing(probes: Probes, mark: Mark) -> Optional[str]:
    """None if it is through: in another boot than the one to be left, or without anything older."""
    same_boot = boot_of(probes) == mark.boot_id
    if mark.state == BEGUN:
        return "begun"
    if mark.state == ORDERED:
        return "ordered, still in the boot before" if same_boot else None
    older = older_than(probes.root, mark) if same_boot and probes.whole_host and mark.uid else []
    return f"but older: {', '.join(shortened(older)[:10])}" if older else None


def older_than(root: str, mark: Mark) -> list[str]:
    found = sorted(running(root, mark.uid).items())
    return [f"process {pid} {name}" for pid, name in found if started(root, pid) < mark.uptime]


def started(root: str, pid: int) -> float:
    """Seconds of this boot; one that has just ended is not older than anything."""
    try:
        with open(os.path.join(root, "proc", str(pid), "stat"), errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return float("inf")
    return ticks / os.sysconf("SC_CLK_TCK")
