"""Refs: the one name a resource has in every room, `kind/project/name` or `kind/name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

NAME_PATTERN = r"[a-z](-?[a-z0-9])*"
NAME_LIMIT = 32
_NAME = re.compile(NAME_PATTERN)

KINDS_OF_PROJECTS = ("Allocation", "Storage", "Grant", "App")
KINDS_OF_FLEET = (
    "User",
    "Project",
    "NodeFamily",
    "Node",
    "Sku",
    "StorageClass",
    "Bundle",
    "Artifact",
    "AppManifest",
    "Policy",
)


def _word(kind: str) -> str:
    """NodeFamily is the `kind:` of a document, node_family its word everywhere else."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


PROJECT_KINDS = frozenset(map(_word, KINDS_OF_PROJECTS))

KIND_WORDS: Mapping[str, str] = MappingProxyType(
    {kind: _word(kind) for kind in (*KINDS_OF_PROJECTS, *KINDS_OF_FLEET)}
)
"""The `kind:` of a document to the word used in refs, modules, schemas and tables."""


class Ref(NamedTuple):
    """`project` is empty for fleet kinds. Refs sort by kind, project and name."""

    kind: str
    project: str
    name: str

    def __str__(self) -> str:
        if self.project:
            return f"{self.kind}/{self.project}/{self.name}"
        return f"{self.kind}/{self.name}"


def is_name(text: str) -> bool:
    """Whether `text` is a legal resource name: plain ASCII lower case, at most 32 characters."""
    return len(text) <= NAME_LIMIT and _NAME.fullmatch(text) is not None


def parse_ref(text: str) -> Ref | None:
    """Read `kind/project/name`, `kind/name` or `project/name` (an allocation); None if it is none.

    Names of kinds are no legal project names, so the short form is never ambiguous.
    """
    parts = text.split("/")
    if not all(is_name(part) for part in parts[1:]):
        return None
    words = KIND_WORDS.values()
    match parts:
        case [kind, project, name] if kind in PROJECT_KINDS:
            return Ref(kind, project, name)
        case [kind, name] if kind in words:
            return Ref(kind, "", name) if kind not in PROJECT_KINDS else None
        case [project, name] if is_name(project):
            return Ref("allocation", project, name)
    return None


def parsed(texts: Iterable[str]) -> frozenset[Ref]:
    """Those that are refs."""
    return frozenset(ref for text in texts if (ref := parse_ref(text)) is not None)
