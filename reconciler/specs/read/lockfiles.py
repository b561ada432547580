"""Lock files: the requirements of bundles, accepted only if they are the agreed ones.

A version of a bundle states the digest of its text, whatever line ends a checkout has given it:
whoever changes the file alone has changed nothing, and is told so before any host is asked.
Whatever is not a release with its hashes is refused: the installer takes options from such a file,
and from some of them commands (rule 16).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.kinds.bundle import BundleSpec, InstallSpec, Version
from reconciler.kinds.checks.findings import Path, finding
from reconciler.model.canonical import text_digest
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.settings import Settings
from reconciler.model.spec.requirements import Requirements
from reconciler.model.spec.resource import Resource
from reconciler.specs.read.library import read_spec
from reconciler.specs.read.links import Linked
from reconciler.specs.read.requirements_file import (
    RequirementsError,
    odd_line_ends,
    plain_text,
    read_requirements,
)


def with_locks(settings: Settings, linked: Linked) -> tuple[Linked, Mapping[str, Requirements]]:
    """Digest → content of every file that is as agreed; bundles with another one are frozen."""
    locks: dict[str, Requirements] = {}
    problems: list[Problem] = []
    frozen = set(linked.frozen)
    for ref, resource in linked.resources.items():
        if ref.kind == "bundle":
            found = list(_read(settings, resource, locks))
            problems += found
            frozen.update({ref} if found else ())
    if not problems:
        return linked, locks
    sound = {ref: one for ref, one in linked.resources.items() if ref not in frozen}
    told = (*linked.problems, *problems)
    return replace(linked, resources=sound, frozen=frozenset(frozen), problems=told), locks


def _read(
    settings: Settings, bundle: Resource[BundleSpec], locks: dict[str, Requirements]
) -> Iterator[Problem]:
    versions: tuple[Version, ...] = bundle.spec.versions
    for one in versions:
        if one.install is not None:
            path: Path = ("spec", "versions", one.version, "install", "lock")
            yield from _of_version(settings, bundle, one.install, path, locks)


def _of_version(
    settings: Settings,
    bundle: Resource[BundleSpec],
    install: InstallSpec,
    path: Path,
    locks: dict[str, Requirements],
) -> Iterator[Problem]:
    try:
        raw = read_spec(settings, install.lock)
        text = plain_text(raw)
    except (ProblemError, UnicodeDecodeError) as error:
        why = error.problems[0].message if isinstance(error, ProblemError) else "no UTF-8"
        message, hint = f"{install.lock}: {why}", "put the file there, beside the specs"
        yield finding(bundle, path, "bundle_lock_missing", message, hint)
        return
    # An agreed digest may be of the bytes as well, from before line ends counted for nothing.
    if install.lock_digest not in (text_digest(text), _digest(raw)):
        message = f"{install.lock} has digest {text_digest(text)}, not the one that is stated"
        hint = "a recorded version never changes: make a new one of what is new"
        yield finding(bundle, path, "bundle_lock_mismatch", message, hint)
        return
    try:
        locks[install.lock_digest] = read_requirements(text)
    except RequirementsError as error:
        message = f"{install.lock}: {error}"
        hint = odd_line_ends(text) or "name==version --hash=sha256:…, comments and nothing else"
        yield finding(bundle, path, "bundle_lock_unsound", message, hint)


def _digest(raw: bytes) -> str:
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"
