"""`validate`: what the files say, checked against what hosts last showed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from reconciler import shipped
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import KIND_WORDS
from reconciler.operations.fleet import without_collector
from reconciler.operations.node.device_overlaps import shared_devices
from reconciler.operations.open import open_fleet
from reconciler.specs.desired import load_desired


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """Every problem of every file, in order of place; `kinds` counts sound documents by kind."""

    problems: tuple[Problem, ...]
    documents: int = 0
    files: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def validate(folder: Path | None, paths: Sequence[Path]) -> Validated:
    """Check the fleet's files, or only `paths` against the whole fleet."""
    fleet = open_fleet(folder)
    with without_collector(), fleet.cache() as cache:
        desired = load_desired(fleet.settings, shipped.schemas(), cache, tuple(paths) or None)
    words = {word: kind for kind, word in KIND_WORDS.items()}
    resources = desired.resources
    return Validated(
        problems=(*desired.problems, *shared_devices(fleet, desired)),
        documents=len(resources),
        files=len({resource.file for resource in resources.values()} | desired.broken),
        kinds=dict(sorted(Counter(words[ref.kind] for ref in resources).items())),
        ignored=tuple(sorted(desired.ignored)),
    )
