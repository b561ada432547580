"""runtime.discard: a bundle version that nobody uses or names is removed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import chain
from typing import Any, Iterator

from .files import fact_of, put_folder, remove_file
from .mounts import Mount, mounts
from .paths import Refusal, Tree, parent_of
from .probes import Probes, printable
from .runtimes import STAGING, Runtime, names_below, runtime_of
from .stage_runtime import is_under_way, refuse_mounted, sweep
from .wipe import remove_folder

KEYS = {"bundle": str, "version": str, "withDefault": bool}

DESCRIPTORS = "etc/gpuaas/runtime/allocations"
NAMING = ("GPUAAS_RUNTIME", "GPUAAS_RUNTIMES")
MAX_TOLD, MAX_ENVIRONMENT = 5, 1 << 20
SECONDS, PROCESS_SECONDS = 15.0, 2.0
"""For what all processes have open, and for what one has."""


def run(tree: Tree, item: dict[str, Any]) -> None:
    runtime = runtime_of(item)
    sweep(tree)
    if is_under_way(tree, runtime.job):
        raise Refusal("runtime_in_use", f"{runtime} is being built")
    if _is_default(tree, runtime) and not item["withDefault"]:
        raise Refusal("runtime_in_use", f"{runtime} is this host's default")
    if fact_of(tree, runtime.place) is not None:
        _refuse_users(tree, runtime, runtime.place)
        refuse_mounted(tree, runtime)
        tree.changed = True
        if not tree.dry:
            _take_away(tree, runtime)
    # Also where an earlier one was cut short before this.
    if _is_default(tree, runtime):
        remove_file(tree, runtime.link)
    remove_folder(tree, runtime.folder)


def _is_default(tree: Tree, runtime: Runtime) -> bool:
    return fact_of(tree, runtime.link) == f"link {runtime.version}"


def _take_away(tree: Tree, runtime: Runtime) -> None:
    """By one rename, so that nobody begins to use what is half gone.

    Whoever has begun while it was asked who uses it is seen after it, and gets it back.
    """
    gone = f"{runtime.folder}.gone"
    put_folder(tree, STAGING, "0755")
    _rename(tree, runtime.place, gone)
    try:
        _refuse_users(tree, runtime, gone)
    except Refusal:
        _rename(tree, gone, runtime.place)
        raise
    remove_folder(tree, gone)


def _refuse_users(tree: Tree, runtime: Runtime, place: str) -> None:
    """`place` is where it lies just now."""
    names = (runtime.place, place, *((runtime.link,) if _is_default(tree, runtime) else ()))
    places = {f"{tree.path}{one}".replace("//", "/") for one in names}
    who = [*_named(Probes(tree.path), runtime), *_used(places), *_mounted(places)]
    if who:
        more = f" and {len(who) - MAX_TOLD} more" if len(who) > MAX_TOLD else ""
        raise Refusal("runtime_in_use", f"{runtime}: {', '.join(who[:MAX_TOLD])}{more}")


def _named(probes: Probes, runtime: Runtime) -> Iterator[str]:
    """Allocations whose descriptor names it."""
    word = f"{runtime.bundle}@{runtime.version}"
    for name in names_below(probes, f"/{DESCRIPTORS}"):
        if name.endswith(".env"):
            told = (line.partition("=") for line in probes.text(DESCRIPTORS, name).splitlines())
            if any(key in NAMING and word in value.split(",") for key, _, value in told):
                yield f"allocation {printable(name[:-4])} names it"


def _used(places: set[str]) -> Iterator[str]:
    """Processes that run from it, stand in it, have something of it open or have it activated."""
    end = time.monotonic() + SECONDS
    for pid in filter(str.isdigit, os.listdir("/proc")):
        until = min(end, time.monotonic() + PROCESS_SECONDS)
        with suppress(OSError):
            for word in chain(_links(pid), _told(pid)):
                late = time.monotonic() > until
                if late or any(f"{word}/".startswith(f"{one}/") for one in places):
                    how = "may use it: it has too much open" if late else "uses it"
                    with open(f"/proc/{pid}/comm", errors="replace") as file:
                        yield f"process {pid} {printable(file.read().strip())} {how}"
                    break


def _mounted(places: set[str]) -> Iterator[str]:
    """Processes that see it by another name, as in a container that was given it."""
    here, seen, end = mounts(), set(), time.monotonic() + SECONDS
    inside = {_in_file_system(place, here) for place in places}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")
            if namespace not in seen:
                seen.add(namespace)
                if time.monotonic() > end:
                    yield f"process {pid} may have it mounted: there are too many namespaces"
                    return
                there = mounts(pid)
                for mount in there:
                    if any(
                        mount.device == device and f"{mount.root}/".startswith(f"{path}/")
                        for device, path in inside
                    ):
                        yield f"process {pid} has it mounted at {printable(mount.point)}"


def _in_file_system(place: str, here: list[Mount]) -> tuple[str, str]:
    """Its device, and its path on that, which is the same for whoever has it mounted."""
    over = [one for one in here if f"{place}/".startswith(f"{one.point.rstrip('/')}/")]
    mount = max(reversed(over), key=lambda one: len(one.point))
    return mount.device, mount.root.rstrip("/") + place[len(mount.point.rstrip("/")) :]


def _links(pid: str) -> Iterator[str]:
    for name in ("cwd", "exe"):
        with suppress(OSError):
            yield os.readlink(f"/proc/{pid}/{name}")
    for folder in ("fd", "map_files"):
        with suppress(OSError), os.scandir(f"/proc/{pid}/{folder}") as entries:
            for entry in entries:
                with suppress(OSError):
                    yield os.readlink(entry.path)


def _told(pid: str) -> Iterator[str]:
    """The names it was started by, and folders in its environment.

    A runtime's Python is a link to the host's own, which may have nothing of it open just now.
    """
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        yield from (os.fsdecode(word) for word in file.read(MAX_ENVIRONMENT).split(b"\0")[:2])
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for one in file.read(MAX_ENVIRONMENT).split(b"\0"):
            yield from os.fsdecode(one.partition(b"=")[2]).split(":")


def _rename(tree: Tree, old: str, new: str) -> None:
    with parent_of(tree, old, make=False) as one, parent_of(tree, new, make=False) as other:
        assert one is not None and other is not None
        os.rename(one[1], other[1], src_dir_fd=one[0], dst_dir_fd=other[0])
        os.fsync(one[0])
        os.fsync(other[0])
