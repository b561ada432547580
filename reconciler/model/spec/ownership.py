"""Ownership: which documents are allowed in which files, by the settings.

A document where it may not stand is none, so whatever is asked of files is asked by these rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from reconciler.model.ref import KIND_WORDS, Ref
from reconciler.model.settings import OwnershipRule, Settings


def may_stand(settings: Settings, ref: Ref, file: str) -> bool:
    """Whether a document about `ref` may stand in a file. Without rules any may."""
    rules = rules_of(settings, file)
    allowed = bool(rules) and all(permits(rule, ref) for rule in rules)
    return allowed or not settings.ownership


def may_stand_below(settings: Settings, ref: Ref, place: str) -> bool:
    """Whether one may stand in `place`, or, if that is a folder, in some file below it."""
    if not settings.ownership:
        return True
    if not all(permits(rule, ref) for rule in rules_of(settings, place)):
        # Each of them names all that lies below as well.
        return False
    parts = _inner(settings, place).split("/")
    return any(permits(rule, ref) and _reaches(rule.path, parts) for rule in settings.ownership)


def rules_of(settings: Settings, file: str) -> Sequence[OwnershipRule]:
    """The rules that name a file, each of which must permit what stands there."""
    inner = _inner(settings, file)
    return [rule for rule in settings.ownership if _glob(rule.path).fullmatch(inner)]


def permits(rule: OwnershipRule, ref: Ref) -> bool:
    """A fleet document belongs to no project: a rule that names projects must name its kind."""
    kinds = {KIND_WORDS.get(kind, kind) for kind in rule.kinds}
    if kinds and ref.kind not in kinds:
        return False
    project = ref.name if ref.kind == "project" else ref.project
    return not rule.projects or project in rule.projects or (not project and bool(kinds))


def _inner(settings: Settings, file: str) -> str:
    return file.removeprefix(f"{settings.spec_root.rstrip('/')}/")


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay within a folder, `**` does not; a folder stands for all below it."""
    parts = re.split(r"(\*\*/?|\*|\?)", pattern.strip("/"))
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts) + "(?:/.*)?")


def _reaches(pattern: str, parts: Sequence[str]) -> bool:
    """Whether a pattern may name a place, or something below it."""
    for word, part in zip(pattern.strip("/").split("/"), parts, strict=False):
        if "**" in word:
            return True
        if not _glob(word).fullmatch(part):
            return False
    return True
