"""Locks: the requirements of bundles, whose text is taken only if it is the one that was agreed.

A version of a bundle states the digest of its file: whoever changes the file alone has changed
nothing, and is told so before any host is asked. Whatever is not a release with its hashes is
refused: the installer takes options from such a file, and from some of them commands (rule 16).
"""

from __future__ import annotations

import re
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

COMMENT = re.compile(r"(^|\s)#.*")
REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+"
    r"( ?;[A-Za-z0-9 ._\"'<>=!()-]+)?( --hash=sha256:[0-9a-f]{64})+"
)
"""As hosts judge it again."""


def with_locks(settings: Settings, linked: Linked) -> tuple[Linked, Mapping[str, str]]:
    """Digest → text of every file that is as agreed; bundles with another one are frozen."""
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
        if one.install is not None:
            path: Path = ("spec", "versions", one.version, "install", "lock")
            yield from _of_version(settings, bundle, one.install, path, locks)


def _of_version(
    settings: Settings, bundle: Resource, install: Install, path: Path, locks: dict[str, str]
) -> Iterator[Problem]:
    try:
        text = read_spec(settings, install.lock).decode("utf-8")
    except (ProblemError, UnicodeDecodeError) as error:
        why = error.problems[0].message if isinstance(error, ProblemError) else "no UTF-8"
        message, hint = f"{install.lock}: {why}", "put the file there, beside the specs"
        yield finding(bundle, path, "bundle_lock_missing", message, hint)
        return
    if text_digest(text) != install.lock_digest:
        message = f"{install.lock} has digest {text_digest(text)}, not the one that is stated"
        hint = "a recorded version never changes: make a new one of what is new"
        yield finding(bundle, path, "bundle_lock_mismatch", message, hint)
    elif strange := next((line for line in _lines(text) if not REQUIREMENT.fullmatch(line)), ""):
        message = f"{install.lock}: no release with its hashes: {strange[:100]!r}"
        hint = "name==version --hash=sha256:…, and nothing else; gpuaas takes no options from it"
        yield finding(bundle, path, "bundle_lock_unsound", message, hint)
    else:
        locks[install.lock_digest] = text


def _lines(text: str) -> Iterator[str]:
    """As the installer joins them; without comments and with single blanks."""
    for line in text.replace("\\\n", " ").split("\n"):
        if words := " ".join(COMMENT.sub("", line).split()):
            yield words
