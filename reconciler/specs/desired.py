"""Desired: everything the files want, typed and linked, with every problem in its place."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from reconciler.model.canonical import canonical, digest, text_digest
from reconciler.model.codec import decode, encode
from reconciler.model.problem import Problem, ProblemError, Severity, in_order
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.document import DocumentCache
from reconciler.model.spec.revision import Revision
from reconciler.specs.git.head import Sight, look
from reconciler.specs.git.history import WorkTree
from reconciler.specs.git.trees import is_plain, spec_tree
from reconciler.specs.read.library import (
    Listing,
    file_name,
    git_at_work,
    list_paths,
    list_specs,
    read_spec,
    work_tree,
)
from reconciler.specs.read.links import Linked, LinkFindings, link
from reconciler.specs.read.loader import Loaded, load, version
from reconciler.specs.read.lockfiles import with_locks
from reconciler.specs.read.text import with_text
from reconciler.specs.read.yaml_reader import read_documents


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
    stand, doubts = _stand(settings)
    sight, blind = (
        (Sight(), "") if paths is not None else _sight(settings, listing, linked, cache, stand)
    )
    broken = frozenset(loaded.broken | sight.broken)
    found = (*locate(settings, loaded.problems), *locate(settings, linked.problems))
    if paths is not None:
        found = _below(found, [file_name(settings, path) for path in paths])
    elif not (loaded.resources or loaded.frozen or loaded.broken):
        found = (*found, _nothing(settings))
    return Desired(
        settings=settings,
        resources=linked.resources,
        digest=_digest(linked, broken),
        revision=stand.revision if stand else Revision(dirty=True),
        frozen=linked.frozen.union(ref for ref, one in sight.absent.items() if one.hidden),
        broken=broken,
        ignored=frozenset(listing.ignored),
        problems=in_order((*found, *sight.problems, *doubts)),
        locks=locks,
        absent=sight.absent,
        readings=linked.readings,
        misplaced=linked.misplaced,
        knows=sight.answers,
        blind=blind,
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
        return decode(LinkFindings, json.loads(row)).applied_to(loaded)
    linked = link(settings, loaded)
    linked = replace(linked, problems=locate(settings, linked.problems))
    if sound:
        verdict = LinkFindings.of(linked)
        cache.put_many(space, {key: canonical(encode(verdict))})
    return linked


def locate(
    settings: Settings,
    problems: Iterable[Problem],
    drafts: Mapping[str, bytes] = MappingProxyType({}),
) -> tuple[Problem, ...]:
    """The problems, each with line, column and text: what has none yet is looked up in its file.

    `drafts` are files that are not written yet, by name.
    """
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
            content = drafts[file] if file in drafts else read_spec(settings, file)
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
    """What is in these files and folders; what has no file concerns everybody."""
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


def _stand(settings: Settings) -> tuple[WorkTree | None, tuple[Problem, ...]]:
    """How the files stand to the commit in hand, and what keeps that from being known or lasting.

    None where git does not say.
    """
    try:
        stand = work_tree(settings)
    except ProblemError as error:
        doubts = (replace(problem, severity=Severity.WARNING) for problem in error.problems)
        return None, tuple(doubts)
    moving = git_at_work(settings)
    return stand, (replace(moving, severity=Severity.WARNING),) if moving else ()


def _sight(
    settings: Settings,
    listing: Listing,
    linked: Linked,
    cache: DocumentCache,
    stand: WorkTree | None,
) -> tuple[Sight, str]:
    """What the commit in hand has beside the files; and why nobody knows, if so."""
    known = linked.resources.keys() | linked.frozen | linked.misplaced.keys()
    tree = spec_tree(settings)
    plain = tree is not None and is_plain(settings, tree)
    try:
        return look(settings, listing, known, cache, stand if plain else None), ""
    except ProblemError as error:
        return Sight(), error.problems[0].message


def _digest(linked: Linked, broken: Iterable[str]) -> str:
    lines = [f"{ref} {resource.digest}" for ref, resource in linked.resources.items()]
    lines += sorted(map(str, linked.frozen))
    lines += sorted(broken)
    lines += [
        f"{ref} {digest(encode(said))}" for ref, said in sorted(linked.readings.items()) if said
    ]
    lines += [f"{ref} in {sorted(files)}" for ref, files in sorted(linked.misplaced.items())]
    return text_digest("\n".join(lines))
