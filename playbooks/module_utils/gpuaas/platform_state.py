"""Platform state: the platform's paths and descriptors on the host, and the size of homes."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from functools import partial
from typing import Any

from .probes import (
    MAX_SECONDS,
    OPEN_FOLDER,
    ProbeError,
    Probes,
    open_below,
    opener,
    path_fact,
    printable,
    unless_gone,
)
from .stale_mounts import served_points

MAX_PATHS = 20_000
MAX_DEPTH = 16
MAX_SIZED = 50_000
MAX_DESCRIPTORS, MAX_DESCRIPTOR = 500, 4096

OURS = re.compile(r".*gpuaas.*")
PLACES = (
    ("etc/gpuaas", MAX_DEPTH, None),
    ("home", 0, None),
    ("var/lib/gpuaas/scratch", 0, None),
    ("var/lib/gpuaas/instances", 1, None),
    ("var/lib/gpuaas/instances/session", 1, None),
    ("run/systemd/system", 1, re.compile(r"user-\d+\.slice\.d")),
    ("usr/local/bin", 0, OURS),
    ("usr/local/libexec/gpuaas", 1, None),
    ("etc/systemd/system", 1, re.compile(r".*gpuaas.*|user-\d*\.slice\.d|user@\d*\.service\.d")),
    ("etc/systemd/system/multi-user.target.wants", 0, OURS),
    ("etc/systemd/system/local-fs.target.wants", 0, OURS),
    ("etc/systemd/logind.conf.d", 0, OURS),
    ("etc/ssh/sshd_config.d", 0, OURS),
    ("etc/security/namespace.d", 0, OURS),
    ("etc/security/limits.d", 0, OURS),
    ("etc/dbus-1/system.d", 0, OURS),
    ("etc/polkit-1/rules.d", 0, OURS),
    ("etc/sysctl.d", 0, OURS),
    ("etc/sysusers.d", 0, OURS),
    ("etc/tmpfiles.d", 0, OURS),
)
"""Where the platform has paths: a folder, how much deeper, and which names directly in it.

A path outside of these places is never told, so nothing may be expected of it.
"""


def read_paths(probes: Probes) -> dict[str, str]:
    """Everything below /etc/gpuaas, and what is the platform's in folders that others share."""
    facts: dict[str, str] = {}
    served = served_points() if probes.root == "/" else frozenset()
    for place, depth, ours in PLACES:
        try:
            folder = open_below(probes.root, place)
        except ProbeError:
            # What lies behind is unknown; everything else is told.
            facts.update(in_the_way(probes, place))
            continue
        if folder is not None:
            try:
                names = [n for n in os.listdir(folder) if ours is None or ours.fullmatch(n)]
                names = [name for name in names if f"/{place}/{name}" not in served]
                list_names(folder, names, ("/" + place, depth), facts)
            finally:
                os.close(folder)
    return facts


def in_the_way(probes: Probes, place: str) -> dict[str, str]:
    """What is no folder on the way to a place; raises ProbeError where that cannot be told."""
    above, _, name = place.rpartition("/")
    try:
        folder = open_below(probes.root, above) if above else os.open(probes.root, OPEN_FOLDER)
    except ProbeError:
        return in_the_way(probes, above)
    if folder is None:
        return {}
    try:
        fact = path_fact(folder, name)
    finally:
        os.close(folder)
    if fact.startswith("dir "):
        raise ProbeError(f"/{place} cannot be entered")
    return {f"/{place}": fact}


def list_names(
    folder: int, names: list[str], place: tuple[str, int], facts: dict[str, str]
) -> None:
    """Facts of these names in an open folder, and of all below them, as deep as asked."""
    shown, depth = place
    for name in sorted(names):
        path = f"{shown}/{printable(name)}"
        try:
            facts[path] = fact = path_fact(folder, name)
        except FileNotFoundError:
            continue
        if len(facts) > MAX_PATHS:
            raise ProbeError(f"more than {MAX_PATHS} paths")
        if depth and fact.startswith("dir "):
            with unless_gone():
                inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
                try:
                    list_names(inner, os.listdir(inner), (path, depth - 1), facts)
                finally:
                    os.close(inner)


def read_descriptors(probes: Probes) -> dict[str, str]:
    """Allocation id → state id; a descriptor that cannot be read has none, and so is foreign."""
    folder = open_below(probes.root, "etc/gpuaas/allocations")
    if folder is None:
        return {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        return {printable(name[:-5]): read_state_id(folder, name) for name in names[:MAX_PATHS]}
    finally:
        os.close(folder)


def read_state_id(folder: int, name: str) -> str:
    descriptor = read_descriptor(folder, name)
    found = descriptor.get("stateId") if isinstance(descriptor, dict) else None
    return printable(found) if isinstance(found, str) else ""


def read_descriptor(folder: int, name: str) -> Any:
    """Whatever JSON it holds; None where it holds none."""
    try:
        with open(name, mode="rb", opener=opener(folder)) as file:
            return json.loads(file.read(1_000_000))
    except (OSError, ValueError, RecursionError):
        return None


def read_descriptor_texts(probes: Probes) -> dict[str, str]:
    """Allocation id → what its descriptor says, on one line; '' where that is nothing sound."""
    folder = open_below(probes.root, "etc/gpuaas/allocations")
    if folder is None:
        return {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        if len(names) > MAX_DESCRIPTORS:
            raise ProbeError(f"more than {MAX_DESCRIPTORS} descriptors")
        return {printable(name[:-5]): one_line(read_descriptor(folder, name)) for name in names}
    finally:
        os.close(folder)


def one_line(value: Any, most: int = MAX_DESCRIPTOR) -> str:
    """The values are what is signed, so it does not matter how they were written."""
    try:
        text = json.dumps(value, separators=(",", ":"))
    except RecursionError:
        return ""
    return text if isinstance(value, dict) and len(text) <= most else ""


def read_sizes(probes: Probes) -> dict[str, int]:
    """Bytes of each home and scratch folder; left out where counting would take too long."""
    end = time.monotonic() + MAX_SECONDS
    served = served_points() if probes.root == "/" else frozenset()
    sizes: dict[str, int] = {}
    for place in ("home", "var/lib/gpuaas/scratch"):
        folder = open_below(probes.root, place)
        if folder is not None:
            os.close(folder)
            for entry in sorted(os.scandir(probes.at(place)), key=lambda entry: entry.name):
                if f"/{place}/{entry.name}" not in served and entry.is_dir(follow_symlinks=False):
                    size = probes.ask("sizes", partial(size_of, entry.path, end))
                    if size is not None:
                        sizes[f"/{place}/{printable(entry.name)}"] = size
    return sizes


def size_of(folder: str, end: float, _: Probes) -> int:
    """Bytes of the files below, on this file system, if they are not too many for a look."""
    total, todo, device, left = 0, [folder], os.lstat(folder).st_dev, MAX_SIZED
    until = min(end, time.monotonic() + MAX_SECONDS / 4)
    while todo:
        with unless_gone(), os.scandir(todo.pop()) as entries:
            for entry in entries:
                left -= 1
                if left < 0 or time.monotonic() > until:
                    raise ProbeError(f"{folder}: too many files to count")
                with unless_gone():
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                        todo.append(entry.path)
                    elif stat.S_ISREG(status.st_mode):
                        total += status.st_size
    return total
