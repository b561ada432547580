"""Links between documents: duplicates, ownership of paths, references, and each kind's own check.

A resource with an error is frozen: left as it was last applied, and so never taken for removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from reconciler.kinds.registry import KINDS
from reconciler.model.problem import PathPart, Problem, Source
from reconciler.model.records import dataclass
from reconciler.model.ref import KIND_WORDS, Ref
from reconciler.model.settings import OwnershipRule, Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.ownership import permits, rules_of
from reconciler.model.spec.reading import LETS_IN, Reading, whole
from reconciler.model.spec.resource import Reference, Resource
from reconciler.specs.read.loader import Loaded
from reconciler.specs.read.suggest import nearest

NAMED_PLACES = 8
"""So many of those that say the same are named; a problem of each stands in its own place."""
NEAREST_LIMIT = 100
"""For so many names that there are not, the nearest one is looked for among all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The resources that may be acted on, those that may not, and why not.

    `misplaced` are files with a document that may not stand there, which is none.
    """

    resources: Mapping[Ref, Resource]
    frozen: frozenset[Ref]
    problems: tuple[Problem, ...]
    misplaced: Mapping[Ref, frozenset[str]]
    readings: Mapping[Ref, tuple[Reading, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Astray:
    """A document out of place."""

    ref: Ref
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFindings:
    """What linking found, without the resources: the form in which it is remembered."""

    frozen: tuple[Ref, ...]
    problems: tuple[Problem, ...]
    astray: tuple[Astray, ...]

    @classmethod
    def of(cls, linked: Linked) -> LinkFindings:
        return cls(
            frozen=tuple(sorted(linked.frozen)),
            problems=linked.problems,
            astray=tuple(
                Astray(ref=ref, file=file)
                for ref, files in sorted(linked.misplaced.items())
                for file in sorted(files)
            ),
        )

    def applied_to(self, loaded: Loaded) -> Linked:
        """The same files linked again, without looking."""
        astray = ((one.ref, one.file) for one in self.astray)
        return _linked(loaded, self.frozen, self.problems, astray)


def link(settings: Settings, loaded: Loaded) -> Linked:
    """Everything that only shows when all documents are in hand."""
    problems: list[Problem] = []
    out_of_place = _misplaced(settings, loaded)
    problems += out_of_place.values()
    frozen = {one.ref for file, one in loaded.frozen if (one.ref, file) not in out_of_place}
    duplicates = set()
    for ref, places in _repeated(loaded, out_of_place).items():
        duplicates.add(ref)
        problems += _duplicate_problems(ref, places)
    unique = {
        one.ref: one
        for one in loaded.resources
        if one.ref not in frozen | duplicates and (one.ref, one.file) not in out_of_place
    }
    desired = Desired(
        settings=settings,
        resources=dict(sorted(unique.items())),
        digest="",
        frozen=frozenset(frozen | duplicates),
        broken=frozenset(loaded.broken),
    )
    frozen |= duplicates
    names = _Names(desired, duplicates, out_of_place)
    for resource in desired.resources.values():
        missing = {one.path: one for one in names.missing(resource)}
        found = [
            *(names.problem(resource, reference) for reference in missing.values()),
            *_own_check(resource, desired, missing),
        ]
        problems += found
        if any(problem.is_error for problem in found):
            frozen.add(resource.ref)
    return _linked(loaded, frozen, problems, out_of_place)


def _linked(
    loaded: Loaded,
    frozen: Iterable[Ref],
    problems: Iterable[Problem],
    out_of_place: Iterable[tuple[Ref, str]],
) -> Linked:
    frozen, out_of_place = frozenset(frozen), frozenset(out_of_place)
    standing = loaded.resources
    if out_of_place:
        standing = [one for one in standing if (one.ref, one.file) not in out_of_place]
    files: dict[Ref, set[str]] = defaultdict(set)
    for ref, file in out_of_place:
        files[ref].add(file)
    return Linked(
        resources=dict(sorted((one.ref, one) for one in standing if one.ref not in frozen)),
        frozen=frozen,
        problems=tuple(problems),
        misplaced={ref: frozenset(names) for ref, names in files.items()},
        readings=_readings(loaded, frozen, out_of_place),
    )


def _readings(
    loaded: Loaded, frozen: Container[Ref], out_of_place: Container[tuple[Ref, str]]
) -> Mapping[Ref, tuple[Reading, ...]]:
    """What documents say that may not be acted on; those out of place count where they stood.

    In the order of their files: which of these were read before, and which just now, is no matter.
    """
    found: dict[Ref, list[Reading]] = defaultdict(list)
    for one in loaded.resources if frozen or out_of_place else ():
        astray = (one.ref, one.file) in out_of_place
        if one.ref.kind in LETS_IN and (astray or one.ref in frozen):
            found[one.ref].append(whole(one, only_there=astray))
    for file, unsound in loaded.frozen:
        if unsound.reading is not None:
            astray = (unsound.ref, file) in out_of_place
            found[unsound.ref].append(replace(unsound.reading, only_there=astray))
    for file, ref in loaded.suspended:
        spec = {"state": "suspended"}
        found[ref].append(Reading(file=file, spec=spec, only_there=True))
    return {ref: tuple(sorted(readings, key=_file)) for ref, readings in found.items()}


def _file(reading: Reading) -> str:
    return reading.file


def _own_check(
    resource: Resource, desired: Desired, missing: Container[tuple[PathPart, ...]]
) -> Iterator[Problem]:
    """What its kind finds, but nothing more about a value that refers to nothing."""
    for problem in KINDS[resource.ref.kind].check(resource, desired):
        if problem.source is None or problem.source.path not in missing:
            yield problem


def _repeated(
    loaded: Loaded, out_of_place: Container[tuple[Ref, str]]
) -> Mapping[Ref, list[Source]]:
    """Refs with more than one document, and where these start."""
    places: dict[Ref, list[Source]] = defaultdict(list)
    for resource in loaded.resources:
        if (resource.ref, resource.file) not in out_of_place:
            places[resource.ref].append(resource.source())
    for file, unsound in loaded.frozen:
        if (unsound.ref, file) not in out_of_place:
            places[unsound.ref].append(Source(file=file, line=unsound.line, column=1))
    return {ref: sorted(found, key=_order) for ref, found in places.items() if len(found) > 1}


def _order(place: Source) -> tuple[object, ...]:
    return place.order


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

    def __init__(
        self,
        desired: Desired,
        duplicates: set[Ref],
        out_of_place: Iterable[tuple[Ref, str]],
    ) -> None:
        self.desired, self.duplicates = desired, duplicates
        self.astray: dict[Ref, str] = {}
        self.astray.update(sorted(out_of_place, reverse=True))
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
        if unread := self.desired.unread(ref):
            files = ", ".join(sorted(unread)[:3])
            return f"it may stand in a file that could not be read: mend {files} first"
        if ref in self.astray:
            return f"it stands in {self.astray[ref]}, where `ownership` does not let it"
        few = len(self.advised) < NEAREST_LIMIT
        alike = {one.name for one in self.there if one[:2] == ref[:2]} if few else ()
        if close := nearest(ref.name, alike):
            return f"did you mean `{close}`?"
        return f"write a document of kind {_KINDS[ref.kind]} named {ref.name}, or name another"


_KINDS = {word: kind for kind, word in KIND_WORDS.items()}


def _misplaced(settings: Settings, loaded: Loaded) -> dict[tuple[Ref, str], Problem]:
    """Every document that may not stand where it does, by its ref and file, with the problem."""
    if not settings.ownership:
        return {}
    rules: dict[str, Sequence[OwnershipRule]] = {}
    found: dict[tuple[Ref, str], Problem] = {}

    def judge(ref: Ref, file: str, place: Callable[[], Source]) -> None:
        if file not in rules:
            rules[file] = rules_of(settings, file)
        if why := _why_misplaced(ref, rules[file]):
            found[ref, file] = Problem(
                code="document_outside_ownership",
                message=f"{ref} may not stand here: {why}",
                hint="move it to a file of its owners, or change `ownership` in gpuaas.yaml",
                source=place(),
                ref=str(ref),
            )

    for one in loaded.resources:
        judge(one.ref, one.file, one.source)
    for file, unsound in loaded.frozen:
        judge(unsound.ref, file, partial(Source, file=file, line=unsound.line, column=1))
    return found


def _why_misplaced(ref: Ref, rules: Sequence[OwnershipRule]) -> str:
    """Each rule of its path must let it stand there, and one must be."""
    for rule in rules:
        if not permits(rule, ref):
            named = [*rule.kinds, *(f"project {project}" for project in rule.projects)]
            return f"{rule.path} is for {', '.join(named)}"
    return "" if rules else "no rule of `ownership` names this path"
