"""Desired: everything the files want, typed and linked, with every problem in its place."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reconciler.model.canonical import canonical, digest, text_digest
from reconciler.model.codec import decode, encode
from reconciler.model.desired import Desired, Revision
from reconciler.model.document import DocumentCache
from reconciler.model.problem import Problem, ProblemError, Severity, in_order
from reconciler.model.settings import Settings
from reconciler.specs.documents import read_documents
from reconciler.specs.library import (
    Listing,
    file_name,
    list_paths,
    list_specs,
    read_spec,
    revision,
)
from reconciler.specs.linking import Linked, Verdict, link
from reconciler.specs.loading import Loaded, load, version
from reconciler.specs.locks import with_locks
from reconciler.specs.text import with_text


def load_desired(
    settings: Settings,
    schemas: Mapping[str, str],
    cache: DocumentCache,
    paths: Sequence[Path] | None = None,
) -> Desired:
    """Read, judge and link the fleet. Raises ProblemError only if the spec root cannot be listed.

    With `paths`: those inside the spec root are seen with the whole fleet around them, those
    outside as fleets of their own; problems are only those of `paths`.
    """
    listing = list_specs(settings) if paths is None else _listing_of(settings, paths)
    loaded = load(listing, schemas, cache)
    linked = _linked(settings, loaded, schemas, cache)
    linked, locks = with_locks(settings, linked)
    found = (*locate(settings, loaded.problems), *locate(settings, linked.problems))
    if paths is not None:
        found = _below(found, [file_name(settings, path) for path in paths])
    elif not (loaded.resources or loaded.frozen or loaded.broken):
        found = (*found, _nothing(settings))
    stand, doubts = _revision(settings)
    return Desired(
        settings=settings,
        resources=linked.resources,
        digest=_digest(linked, loaded.broken),
        revision=stand,
        frozen=linked.frozen,
        broken=frozenset(loaded.broken),
        ignored=frozenset(listing.ignored),
        problems=in_order((*found, *doubts)),
        locks=locks,
    )


def _linked(
    settings: Settings, loaded: Loaded, schemas: Mapping[str, str], cache: DocumentCache
) -> Linked:
    """What linking finds depends on nothing but settings and files, so it is remembered by these.

    Only for files that all could be read whole: then the digests of their content say everything.
    """
    sound = not (loaded.broken or loaded.frozen)
    space = f"links {version(schemas)}"
    key = digest([encode(settings), sorted(loaded.content.items())]) if sound else ""
    if sound and (row := cache.get_many(space, {key}).get(key)):
        return decode(Verdict, json.loads(row)).applied_to(loaded)
    linked = link(settings, loaded)
    linked = replace(linked, problems=locate(settings, linked.problems))
    if sound:
        verdict = Verdict(frozen=tuple(sorted(linked.frozen)), problems=linked.problems)
        cache.put_many(space, {key: canonical(encode(verdict))})
    return linked


def locate(settings: Settings, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems, each with line, column and text: what has none yet is looked up in its file."""
    located = []
    by_file: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        source = problem.source
        if source is None or not source.file or (source.line and source.text):
            located.append(problem)
        else:
            by_file[source.file].append(problem)
    for file, found in by_file.items():
        try:
            content = read_spec(settings, file)
        except ProblemError:
            located += found
        else:
            located += with_text(_placed(file, content, found), content)
    return in_order(located)


def _placed(file: str, content: bytes, problems: Iterable[Problem]) -> list[Problem]:
    documents = {one.document.index: one for one in read_documents(file, content).documents}
    placed = []
    for problem in problems:
        source = problem.source
        if source is not None and not source.line and source.document in documents:
            problem = problem.at(documents[source.document].source(source.path))
        placed.append(problem)
    return placed


def _listing_of(settings: Settings, paths: Sequence[Path]) -> Listing:
    root = Path(settings.folder, settings.spec_root).resolve()
    outside = [path for path in paths if not path.resolve().is_relative_to(root)]
    listing = list_paths(settings, outside)
    for path in (one for one in paths if one not in outside and not one.exists()):
        name = file_name(settings, path)
        listing.refuse(name, "file_unreadable", "there is no such file or folder", "name another")
    if len(outside) < len(paths):
        fleet = list_specs(settings)
        listing = replace(
            listing,
            files=[*listing.files, *fleet.files],
            ignored=listing.ignored | fleet.ignored,
            broken=listing.broken | fleet.broken,
            problems=[*listing.problems, *fleet.problems],
        )
    return listing


def _below(problems: Iterable[Problem], names: Iterable[str]) -> tuple[Problem, ...]:
    """Those of these files and folders; what has no file concerns everybody."""
    names = tuple(names)
    return tuple(
        problem
        for problem in problems
        if problem.source is None
        or any(f"{problem.source.file}/".startswith(f"{name}/") for name in names)
    )


def _nothing(settings: Settings) -> Problem:
    return Problem(
        code="spec_root_empty",
        message=f"the spec root {settings.spec_root} holds no document",
        hint="nothing counts as removed; bring the files back, or write the first one",
    )


def _revision(settings: Settings) -> tuple[Revision, tuple[Problem, ...]]:
    try:
        return revision(settings), ()
    except ProblemError as error:
        doubts = (replace(problem, severity=Severity.WARNING) for problem in error.problems)
        return Revision(dirty=True), tuple(doubts)


def _digest(linked: Linked, broken: Iterable[str]) -> str:
    lines = [f"{ref} {resource.digest}" for ref, resource in linked.resources.items()]
    return text_digest("\n".join([*lines, *sorted(map(str, linked.frozen)), *sorted(broken)]))
