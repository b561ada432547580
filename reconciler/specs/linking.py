"""Documents against each other: duplicates, ownership of paths, references, each kind's own check.

A resource with an error is frozen: left as it was last applied, and so never taken for removed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache

from reconciler.kinds.registry import KINDS
from reconciler.model.desired import Desired
from reconciler.model.problem import PathPart, Problem, Source
from reconciler.model.records import dataclass
from reconciler.model.ref import KIND_WORDS, Ref
from reconciler.model.resource import Reference, Resource
from reconciler.model.settings import OwnershipRule, Settings
from reconciler.specs.loading import Loaded
from reconciler.specs.nearest import nearest

NAMED_PLACES = 8
"""So many of those that say the same are named; a problem of each stands in its own place."""
NEAREST_LIMIT = 100
"""For so many names that there are not, the nearest one is looked for among all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The resources that may be acted on, those that may not, and why not."""

    resources: Mapping[Ref, Resource]
    frozen: frozenset[Ref]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What linking found, without the resources: the form in which it is remembered."""

    frozen: tuple[Ref, ...]
    problems: tuple[Problem, ...]

    def applied_to(self, loaded: Loaded) -> Linked:
        """The same files linked again, without looking."""
        frozen = frozenset(self.frozen)
        sound = {one.ref: one for one in loaded.resources if one.ref not in frozen}
        resources = dict(sorted(sound.items()))
        return Linked(resources=resources, frozen=frozen, problems=self.problems)


def link(settings: Settings, loaded: Loaded) -> Linked:
    """Everything that only shows when all documents are in hand."""
    problems: list[Problem] = []
    frozen = {ref for ref, _, _ in loaded.frozen}
    duplicates = set()
    for ref, places in _repeated(loaded).items():
        duplicates.add(ref)
        problems += _duplicate_problems(ref, places)
    unique = {one.ref: one for one in loaded.resources if one.ref not in frozen | duplicates}
    desired = Desired(
        settings=settings,
        resources=dict(sorted(unique.items())),
        digest="",
        frozen=frozenset(frozen | duplicates),
        broken=frozenset(loaded.broken),
    )
    frozen |= duplicates
    names = _Names(desired, duplicates)
    for resource in desired.resources.values():
        missing = {one.path: one for one in names.missing(resource)}
        found = [
            *_outside_ownership(resource, settings),
            *(names.problem(resource, reference) for reference in missing.values()),
            *_own_check(resource, desired, missing),
        ]
        problems += found
        if any(problem.is_error for problem in found):
            frozen.add(resource.ref)
    sound = {ref: one for ref, one in desired.resources.items() if ref not in frozen}
    return Linked(resources=sound, frozen=frozenset(frozen), problems=tuple(problems))


def _own_check(
    resource: Resource, desired: Desired, missing: Container[tuple[PathPart, ...]]
) -> Iterator[Problem]:
    """What its kind finds, but nothing more about a value that refers to nothing."""
    for problem in KINDS[resource.ref.kind].check(resource, desired):
        if problem.source is None or problem.source.path not in missing:
            yield problem


def _repeated(loaded: Loaded) -> Mapping[Ref, list[Source]]:
    """Refs with more than one document, and where these start."""
    places: dict[Ref, list[Source]] = defaultdict(list)
    for resource in loaded.resources:
        places[resource.ref].append(resource.source())
    for ref, file, line in loaded.frozen:
        places[ref].append(Source(file=file, line=line, column=1))
    return {ref: found for ref, found in places.items() if len(found) > 1}


def _duplicate_problems(ref: Ref, places: list[Source]) -> Iterator[Problem]:
    for place in places:
        others = [one for one in places[: NAMED_PLACES + 1] if one is not place][:NAMED_PLACES]
        named = ", ".join(f"{other.file}:{other.line}" for other in others)
        more = len(places) - 1 - len(others)
        yield Problem(
            code="duplicate_resource",
            message=f"{ref} is stated more than once: also in {named}"
            + (f" and {more} more places" if more else ""),
            hint="keep one of them, or give the other a name of its own",
            source=place,
            ref=str(ref),
        )


class _Names:
    """Which refs there are, and what to say of those that are not."""

    def __init__(self, desired: Desired, duplicates: set[Ref]) -> None:
        self.desired, self.duplicates = desired, duplicates
        self.there = (desired.resources.keys() | desired.frozen) - duplicates
        self.advised: dict[Ref, str] = {}

    def missing(self, resource: Resource) -> Iterator[Reference]:
        there = self.there
        for reference in KINDS[resource.ref.kind].refs(resource):
            if reference.ref not in there:
                yield reference

    def problem(self, resource: Resource, reference: Reference) -> Problem:
        ref, code = reference.ref, "dangling_reference"
        if ref in self.duplicates:
            code = "ambiguous_reference"
            message, hint = f"{ref} is stated more than once", "keep one of its documents"
        else:
            if ref not in self.advised:
                self.advised[ref] = self.advice(ref)
            message, hint = f"there is no {ref}", self.advised[ref]
        source = resource.source(*reference.path)
        return Problem(code=code, message=message, hint=hint, source=source, ref=str(resource.ref))

    def advice(self, ref: Ref) -> str:
        if self.desired.broken:
            files = ", ".join(sorted(self.desired.broken)[:3])
            return f"it may stand in a file that could not be read: mend {files} first"
        few = len(self.advised) < NEAREST_LIMIT
        alike = {one.name for one in self.there if one[:2] == ref[:2]} if few else ()
        if close := nearest(ref.name, alike):
            return f"did you mean `{close}`?"
        return f"write a document of kind {_KINDS[ref.kind]} named {ref.name}, or name another"


_KINDS = {word: kind for kind, word in KIND_WORDS.items()}


def _outside_ownership(resource: Resource, settings: Settings) -> Iterable[Problem]:
    for rule in settings.ownership:
        if _matches(rule.path, resource.file, settings) and not _permits(rule, resource.ref):
            named = [*rule.kinds, *(f"project {project}" for project in rule.projects)]
            yield Problem(
                code="document_outside_ownership",
                message=f"{resource.ref} may not stand here: {rule.path} is for {', '.join(named)}",
                hint="move it to a file of its owners, or change `ownership` in gpuaas.yaml",
                source=resource.source(),
                ref=str(resource.ref),
            )


def _permits(rule: OwnershipRule, ref: Ref) -> bool:
    """A fleet document belongs to no project: a rule that names projects must name its kind."""
    kinds = {KIND_WORDS.get(kind, kind) for kind in rule.kinds}
    if kinds and ref.kind not in kinds:
        return False
    project = ref.name if ref.kind == "project" else ref.project
    return not rule.projects or project in rule.projects or (not project and bool(kinds))


def _matches(pattern: str, file: str, settings: Settings) -> bool:
    root = f"{settings.spec_root.rstrip('/')}/"
    return _glob(pattern).fullmatch(file.removeprefix(root)) is not None


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay within a folder, `**` does not; a folder stands for all below it."""
    parts = re.split(r"(\*\*/?|\*|\?)", pattern.strip("/"))
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts) + "(?:/.*)?")
