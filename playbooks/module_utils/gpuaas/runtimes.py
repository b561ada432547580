"""Runtimes: versions of bundles below one folder, and the folders in which they are being built.

A tree is there whole or not at all: it is built elsewhere under the name that it will have, and
made visible by one rename. What is in it is written down beside it, of one moment, so that a look
at names, sizes and times shows whatever has been changed since.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
import time
from contextlib import suppress
from typing import Any, Iterator, NamedTuple, Optional

from .paths import Refusal
from .probes import Probes, printable

RUNTIMES, STAGING = "/opt/gpuaas/runtimes", "/opt/gpuaas/staging"
BUNDLE = re.compile(r"[a-z](-?[a-z0-9]){0,31}")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
MANIFEST = ".gpuaas/manifest.json"
CURRENT = "current"
STARTING_SECONDS = 10.0
"""For so long nobody works on a job that has just been laid out."""

MAX_MANIFEST = 64 * 1024 * 1024


class Runtime(NamedTuple):
    bundle: str
    version: str

    @property
    def place(self) -> str:
        return f"{RUNTIMES}/{self.bundle}/{self.version}"

    @property
    def link(self) -> str:
        return f"{RUNTIMES}/{self.bundle}/{CURRENT}"

    @property
    def job(self) -> str:
        """The name of its job, the same for everybody who asks for it: two are one."""
        return hashlib.sha256(f"{self.bundle}@{self.version}".encode()).hexdigest()[:16]

    @property
    def folder(self) -> str:
        return f"{STAGING}/{self.job}"

    def __str__(self) -> str:
        return f"{self.bundle}/{self.version}"


def runtime_of(item: dict[str, Any]) -> Runtime:
    """Judged again here: what is no name of a bundle or a version is no folder either."""
    bundle, version = item["bundle"], item["version"]
    if not BUNDLE.fullmatch(bundle):
        raise Refusal("item_invalid", f"no bundle: {bundle!r}")
    if not VERSION.fullmatch(version) or version.lower() == CURRENT:
        raise Refusal("item_invalid", f"no version: {version!r}")
    return Runtime(bundle, version)


def read_runtimes(probes: Probes) -> dict[str, str]:
    """`<bundle>/<version>` → `staged sha256:…`, `changed …`, `staging <phase>` or `failed …`."""
    found = {str(one): _shown(probes, one) for one in _trees(probes)}
    for one, told in _jobs(probes):
        if not found.get(str(one), "").startswith("staged"):
            found[str(one)] = told
    return found


def read_currents(probes: Probes) -> dict[str, str]:
    """Bundle → the version that is this host's default."""
    found = {}
    for bundle in _names(probes, RUNTIMES):
        with suppress(OSError):
            found[bundle] = printable(os.readlink(probes.at(RUNTIMES[1:], bundle, CURRENT)))
    return found


def manifest_of(tree: str) -> Optional[dict[str, Any]]:
    """What was put into a tree; None where nothing whole was."""
    with suppress(FileNotFoundError, NotADirectoryError, ValueError):
        with open(os.path.join(tree, MANIFEST), "rb") as file:
            text = file.read(MAX_MANIFEST)
        told = json.loads(text)
        if isinstance(told, dict) and isinstance(told.get("files"), list):
            return {**told, "digest": "sha256:" + hashlib.sha256(text).hexdigest()}
    return None


def changes_of(tree: str, manifest: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """(path, whether it is a stranger's) of all that is not as it was put there.

    By sort, mode, owner, size and time: none of it can be changed without one of these, but by
    whoever is root and means to.
    """
    known = {path: (sort, mode, size, what) for path, sort, mode, size, what in manifest["files"]}
    seen = set()
    moment, owner = manifest["moment"], (os.geteuid(), os.getegid())
    for folder, folders, names in os.walk(tree):
        for name in (*folders, *names):
            path = os.path.relpath(os.path.join(folder, name), tree)
            if path == ".gpuaas" or path == MANIFEST:
                continue
            seen.add(path)
            if path not in known:
                yield path, True
            elif not _is_as_made(os.path.join(folder, name), known[path], moment, owner):
                yield path, False
    for path in sorted(set(known) - seen):
        yield path, False


def is_alive(folder: str) -> bool:
    """Whether somebody is at work on a job: whoever is has it locked, however it was started."""
    try:
        with open(os.path.join(folder, "state/alive"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    if os.path.exists(os.path.join(folder, "state/failed.json")):
        return False
    with suppress(OSError):
        return time.time() - os.stat(os.path.join(folder, "job.json")).st_mtime < STARTING_SECONDS
    return False


def _is_as_made(
    path: str, known: tuple[str, int, int, str], moment: int, owner: tuple[int, int]
) -> bool:
    sort, mode, size, what = known
    found = os.lstat(path)
    if (found.st_uid, found.st_gid) != owner:
        return False
    if sort == "link":
        return stat.S_ISLNK(found.st_mode) and os.readlink(path) == what
    if stat.S_IMODE(found.st_mode) != mode:
        return False
    if sort == "dir":
        # Its time changes with what is in it, which is told by its own name.
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISREG(found.st_mode) and (found.st_size, int(found.st_mtime)) == (size, moment)


def _shown(probes: Probes, one: Runtime) -> str:
    tree = probes.at(one.place[1:])
    manifest = manifest_of(tree)
    if manifest is None:
        return "changed 1: no manifest"
    changed = sorted(path for path, _ in changes_of(tree, manifest))
    if changed:
        return printable(f"changed {len(changed)}: {changed[0]}")
    return str(manifest["digest"]).join(("staged ", ""))


def _trees(probes: Probes) -> Iterator[Runtime]:
    for bundle in _names(probes, RUNTIMES):
        for version in _names(probes, f"{RUNTIMES}/{bundle}"):
            if BUNDLE.fullmatch(bundle) and VERSION.fullmatch(version) and version != CURRENT:
                yield Runtime(bundle, version)


def _jobs(probes: Probes) -> Iterator[tuple[Runtime, str]]:
    for name in _names(probes, STAGING):
        folder = probes.at(STAGING[1:], name)
        job = _read(folder, "job.json")
        with suppress(KeyError, TypeError, Refusal):
            yield runtime_of(job), _at_work(folder)


def _at_work(folder: str) -> str:
    failed, phase = _read(folder, "state/failed.json"), _read(folder, "state/phase.json")
    at = printable(str(phase.get("phase", "space")))[:20]
    if failed:
        code, message = str(failed.get("code"))[:40], str(failed.get("message"))[:300]
        return printable(f"failed {code}: {message}")
    if is_alive(folder) or _is_to_be_sealed(folder):
        return f"staging {at}"
    return f"failed runtime_interrupted: it ended during {at}"


def _is_to_be_sealed(folder: str) -> bool:
    """Between the end of the build and the beginning of what comes after it."""
    with suppress(OSError):
        built = os.stat(os.path.join(folder, "state/built.json")).st_mtime
        return time.time() - built < STARTING_SECONDS
    return False


def _read(folder: str, name: str) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            told = json.loads(file.read(1 << 20))
        return told if isinstance(told, dict) else {}
    return {}


def _names(probes: Probes, place: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(probes.at(place[1:])) if name[0] != ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
