"""runtime.discard: a version of a bundle that nobody uses or names is gone."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Iterator

from .files import fact_of, put_folder
from .paths import Refusal, Tree, parent_of
from .probes import Probes, printable
from .runtimes import STAGING, Runtime, is_alive, runtime_of
from .wipe import remove_folder

KEYS = {"bundle": str, "version": str}

DESCRIPTORS = "etc/gpuaas/runtime/allocations"
MAX_TOLD = 5


def run(tree: Tree, item: dict[str, Any]) -> None:
    runtime = runtime_of(item)
    folder = f"{tree.path}{runtime.folder}".replace("//", "/")
    if is_alive(folder):
        raise Refusal("runtime_in_use", f"{runtime} is being built")
    if fact_of(tree, runtime.place) is not None:
        _refuse_users(tree, runtime)
        if not tree.dry:
            _hide(tree, runtime)
        tree.changed = True
    for rest in (f"{runtime.folder}.gone", runtime.folder):
        if fact_of(tree, rest) is not None:
            remove_folder(tree, rest)


def _refuse_users(tree: Tree, runtime: Runtime) -> None:
    if fact_of(tree, runtime.link) == f"link {runtime.version}":
        raise Refusal("runtime_in_use", f"{runtime} is this host's default")
    who = [*_named(Probes(tree.path), runtime), *_used(f"{tree.path}{runtime.place}")]
    if who:
        raise Refusal("runtime_in_use", f"{runtime}: {', '.join(who[:MAX_TOLD])}")


def _named(probes: Probes, runtime: Runtime) -> Iterator[str]:
    """Allocations whose descriptor names it."""
    word = f"{runtime.bundle}@{runtime.version}"
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(probes.at(DESCRIPTORS))):
            if name.endswith(".env"):
                for line in probes.text(DESCRIPTORS, name).splitlines():
                    key, _, value = line.partition("=")
                    if key == "GPUAAS_RUNTIMES" and word in value.split(","):
                        yield f"allocation {printable(name[:-4])} names it"


def _used(place: str) -> Iterator[str]:
    """Processes that run from it, stand in it or have something of it open."""
    place = place.replace("//", "/")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if any(one.startswith(place + "/") or one == place for one in _links(pid)):
                with open(f"/proc/{pid}/comm", errors="replace") as file:
                    yield f"process {pid} {printable(file.read().strip())} uses it"


def _links(pid: str) -> Iterator[str]:
    for name in ("cwd", "exe"):
        with suppress(OSError):
            yield os.readlink(f"/proc/{pid}/{name}")
    for folder in ("fd", "map_files"):
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/{folder}"):
                with suppress(OSError):
                    yield os.readlink(f"/proc/{pid}/{folder}/{name}")
    # An interpreter outside of it may run what is in it: it was started by a name of it.
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        yield from (os.fsdecode(word) for word in file.read(1 << 16).split(b"\0")[:2])


def _hide(tree: Tree, runtime: Runtime) -> None:
    """By one rename, so that nobody begins to use what is half gone."""
    put_folder(tree, STAGING, "0755")
    gone = f"{runtime.folder}.gone"
    with parent_of(tree, runtime.place, make=False) as old, parent_of(tree, gone, make=True) as new:
        assert old is not None and new is not None
        os.rename(old[1], new[1], src_dir_fd=old[0], dst_dir_fd=new[0])
        os.fsync(old[0])
