"""A draft: what a file is to say, judged with the whole fleet around it before it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from reconciler.model.problem import Problem, in_order
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.document import DocumentCache
from reconciler.specs.desired import locate
from reconciler.specs.read.check_file import Judge
from reconciler.specs.read.library import list_specs
from reconciler.specs.read.links import link
from reconciler.specs.read.loader import load
from reconciler.specs.read.lockfiles import with_locks


def judge_draft(
    settings: Settings,
    schemas: Mapping[str, str],
    cache: DocumentCache,
    name: str,
    content: bytes,
) -> Desired:
    """Everything git would want if the file `name` held `content`, with what is wrong with it.

    No commit is asked: nothing about who wrote what, or what is gone, is known of it.
    """
    listing = list_specs(settings)
    others = [one for one in listing.files if one.name != name]
    loaded = load(replace(listing, whole=False, files=others), schemas, cache)
    loaded.add(Judge(schemas).judge(name, content))
    linked, locks = with_locks(settings, link(settings, loaded))
    found = (*loaded.problems, *linked.problems)
    return Desired(
        settings=settings,
        resources=linked.resources,
        digest="",
        frozen=linked.frozen,
        broken=frozenset(loaded.broken),
        problems=in_order(locate(settings, found, {name: content})),
        locks=locks,
        misplaced=linked.misplaced,
    )


def new_problems(before: Desired, after: Desired) -> tuple[Problem, ...]:
    """What is wrong with `after` and was not with `before`, wherever that stands."""
    known, found = Counter(map(_said, before.problems)), []
    for one in after.problems:
        said = _said(one)
        if not known[said]:
            found.append(one)
        known[said] = max(0, known[said] - 1)
    return tuple(found)


def _said(problem: Problem) -> tuple[str, str, str, bool]:
    """A problem without its line, which moves with whatever is written above it."""
    file = problem.source.file if problem.source else ""
    return problem.code, problem.message, file, problem.is_error
