"""Refusals: how it is worded that a change is not done, and where that is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reconciler.kinds.registry import KINDS
from reconciler.model.problem import PathPart, Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.planner.core.difference import Difference


class Refusal(NamedTuple):
    code: str
    message: str
    hint: str


def problem_of(about: Difference | Resource, found: Refusal, *path: PathPart) -> Problem:
    """The refusal, with the place of the document, or at a path in it, that it is about."""
    resource = about if isinstance(about, Resource) else about.resource
    return Problem(
        code=found.code,
        message=found.message,
        hint=found.hint,
        source=resource.source(*path) if resource else None,
        ref=str(about.ref),
    )


def refuse_all(differences: Iterable[Difference], found: Refusal) -> Mapping[Ref, Problem]:
    """One refusal of all of them at once."""
    return {one.ref: problem_of(one, found) for one in differences}


def absence(resource: Resource, absent: Mapping[Ref, Problem]) -> Problem | None:
    """What it refers to is itself refused, and so does not exist yet; for the same reason."""
    for reference in KINDS[resource.ref.kind].refs(resource):
        cause = absent.get(reference.ref)
        if cause is not None:
            message = f"it needs {reference.ref}, which is blocked: {cause.message}"
            return problem_of(resource, Refusal(cause.code, message, cause.hint))
    return None
