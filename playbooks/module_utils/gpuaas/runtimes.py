"""Runtimes: bundle versions below one folder, and the folders in which they are being built.

A tree is there whole or not at all: it is built elsewhere under the name that it will have, and
made visible by one rename. What is in it is written down beside it, of one moment, so that a look
at names, sizes and times shows whatever has been changed since.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from contextlib import suppress
from typing import Any, Iterator, NamedTuple, Optional

from .digests import sha256
from .paths import Refusal
from .probes import Probes, opener, printable
from .runtime_builds import at_work, has_failed, read, unwanted

RUNTIMES, STAGING = "/opt/gpuaas/runtimes", "/opt/gpuaas/staging"
BUNDLE = re.compile(r"[a-z](-?[a-z0-9]){0,31}")
JOB = re.compile(r"[0-9a-f]{16}")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
MANIFEST = ".gpuaas/manifest.json"
OUTSIDE = {".": 0o755, ".gpuaas": 0o755, MANIFEST: 0o644}
"""What no manifest tells of, by its mode."""

CURRENT = "current"
NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
MAX_MANIFEST = 64 * 1024 * 1024


class Entry(NamedTuple):
    """What was made of one path: a file by the digest of it, a link by where it leads."""

    sort: str
    mode: int
    size: int
    content: str


class Manifest(NamedTuple):
    """What was put into a tree at one moment; `digest` is that of the manifest itself."""

    digest: str
    lock_digest: str
    moment: int
    files: dict[str, Entry]


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
    def sealed(self) -> str:
        """Only what was built here to its end has it."""
        return f"{self.place}/.gpuaas"

    @property
    def job(self) -> str:
        """The name of its job, the same for everybody who asks for it: two are one."""
        return sha256(f"{self.bundle}@{self.version}".encode()).hexdigest()[:16]

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
    """`<bundle>/<version>` → `staged sha256:…`, `changed …`, `staging <phase>` or `failed …`.

    While somebody is at work on it nothing else is said; why work has failed, where none stands
    but what it was to take the place of.
    """
    jobs = {str(one): (told, instead) for one, told, instead in _jobs(probes)}
    under_way = {name for name, (told, _) in jobs.items() if told.startswith("staging")}
    stand = {str(one): _shown(probes, one) for one in _trees(probes) if str(one) not in under_way}
    return stand | {
        name: told
        for name, (told, instead) in jobs.items()
        for shown in [stand.get(name, "")]
        if not shown.startswith("staged") or shown == f"staged {instead}"
    }


def read_currents(probes: Probes) -> dict[str, str]:
    """Bundle → the version that is this host's default."""
    found = {}
    for bundle in names_below(probes, RUNTIMES):
        with suppress(OSError):
            found[bundle] = printable(os.readlink(probes.at(RUNTIMES[1:], bundle, CURRENT)))
    return found


def manifest_of(tree: str) -> Optional[Manifest]:
    """What was put into a tree; None where nothing whole was.

    Raises OSError where nobody can tell.
    """
    try:
        with open(os.path.join(tree, MANIFEST), mode="rb", opener=opener()) as file:
            text = file.read(MAX_MANIFEST)
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        return None
    with suppress(ValueError, TypeError, KeyError):
        told = json.loads(text)
        return Manifest(
            "sha256:" + sha256(text).hexdigest(),
            str(told["lockDigest"]),
            int(told["moment"]),
            {path: Entry(*rest) for path, *rest in told["files"]},
        )
    return None


def changes_of(tree: str, manifest: Manifest, *, deep: bool = False) -> Iterator[tuple[str, bool]]:
    """(path, whether it is a stranger's) of all that is not as it was put there.

    By sort, mode, owner, size and time: none of it can be changed without one of these, but by
    whoever is root and means to. Whoever looks deep reads all of it.
    """
    seen = set(OUTSIDE)
    for path, mode in OUTSIDE.items():
        found = os.lstat(os.path.join(tree, path))
        if not _is_ours(found) or stat.S_IMODE(found.st_mode) != mode:
            yield path, False
    for folder, folders, names in os.walk(tree, onerror=_raise):
        inside = folder[len(tree) :].strip("/")
        for name in (*folders, *names):
            path = f"{inside}/{name}" if inside else name
            if path in seen:
                continue
            seen.add(path)
            entry = manifest.files.get(path)
            if entry is None:
                yield path, True
            elif not _is_as_made(f"{folder}/{name}", entry, manifest.moment, deep):
                yield path, False
    for path in sorted(set(manifest.files) - seen):
        yield path, False


def is_rest(probes: Probes, folder: str) -> bool:
    """Whether a folder of no living job has nothing to tell: what was to be built stands."""
    if has_failed(folder):
        return False
    try:
        found = manifest_of(probes.at(runtime_of(read(folder, "job.json")).place[1:]))
        return found is not None and found.digest != unwanted(folder)
    except (KeyError, TypeError, Refusal):
        return True


def _is_as_made(path: str, entry: Entry, moment: int, deep: bool) -> bool:
    found = os.lstat(path)
    if not _is_ours(found):
        return False
    if entry.sort == "link":
        return stat.S_ISLNK(found.st_mode) and os.readlink(path) == entry.content
    if stat.S_IMODE(found.st_mode) != entry.mode:
        return False
    if entry.sort == "dir":
        # Its time changes with what is in it, which is told by its own name.
        return stat.S_ISDIR(found.st_mode)
    if not stat.S_ISREG(found.st_mode) or found.st_mtime_ns != moment * 10**9:
        return False
    return found.st_size == entry.size and (not deep or _digest_of(path) == entry.content)


def _raise(error: OSError) -> None:
    """What cannot be looked at is not gone."""
    raise error


def _is_ours(found: os.stat_result) -> bool:
    return (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())


def _digest_of(path: str) -> str:
    digest = sha256()
    with open(path, mode="rb", opener=opener()) as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _shown(probes: Probes, one: Runtime) -> str:
    tree = probes.at(one.place[1:])
    manifest = manifest_of(tree)
    if manifest is None:
        return "changed 1: no manifest"
    changed = sorted(path for path, _ in changes_of(tree, manifest))
    if changed:
        return printable(f"changed {len(changed)}: {changed[0]}")
    return f"staged {manifest.digest}"


def _trees(probes: Probes) -> Iterator[Runtime]:
    for bundle in names_below(probes, RUNTIMES):
        for version in names_below(probes, f"{RUNTIMES}/{bundle}"):
            if BUNDLE.fullmatch(bundle) and VERSION.fullmatch(version) and version != CURRENT:
                yield Runtime(bundle, version)


def _jobs(probes: Probes) -> Iterator[tuple[Runtime, str, str]]:
    """Each with how it stands, and what it is to take the place of."""
    for name in names_below(probes, STAGING):
        folder = probes.at(STAGING[1:], name)
        job = read(folder, "job.json")
        with suppress(KeyError, TypeError, Refusal):
            yield runtime_of(job), at_work(folder), unwanted(folder)


def names_below(probes: Probes, place: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(probes.at(place[1:])) if name[0] != ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
