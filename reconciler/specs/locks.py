"""Locks: the requirements of bundles, whose text is taken only if it is the one that was agreed.

A version of a bundle states the digest of its file: whoever changes the file alone has changed
nothing, and is told so before any host is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.kinds.bundle import Install, Version
from reconciler.kinds.findings import Path, finding
from reconciler.model.canonical import text_digest
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.resource import Resource
from reconciler.model.settings import Settings
from reconciler.specs.library import read_spec
from reconciler.specs.linking import Linked


def with_locks(settings: Settings, linked: Linked) -> tuple[Linked, Mapping[str, str]]:
    """Path → text of every file that is as agreed; bundles with another one are frozen."""
    locks: dict[str, str] = {}
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


def _read(settings: Settings, bundle: Resource, locks: dict[str, str]) -> Iterator[Problem]:
    versions: tuple[Version, ...] = bundle.spec.versions
    for one in versions:
        install: Install | None = one.install
        if install is None:
            continue
        path: Path = ("spec", "versions", one.version, "install", "lock")
        try:
            text = read_spec(settings, install.lock).decode("utf-8")
        except (ProblemError, UnicodeDecodeError) as error:
            why = error.problems[0].message if isinstance(error, ProblemError) else "no UTF-8"
            message, hint = f"{install.lock}: {why}", "put the file there, beside the specs"
            yield finding(bundle, path, "bundle_lock_missing", message, hint)
            continue
        if text_digest(text) != install.lock_digest:
            message = f"{install.lock} has digest {text_digest(text)}, not the one that is stated"
            hint = "a recorded version never changes: make a new one of what is new"
            yield finding(bundle, path, "bundle_lock_mismatch", message, hint)
        else:
            locks[install.lock] = text
