"""Risks: what an action may cost somebody, and how its refusal is worded."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from reconciler.kinds.registry import KINDS
from reconciler.model.plan.plan import RISKS, Action, Risk
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource

ACTION_RISKS: Mapping[Action, Risk] = MappingProxyType(
    {
        Action.RELEASE: Risk.DESTROYS,
        Action.REPLACE: Risk.DESTROYS,
        Action.RESTART: Risk.INTERRUPTS,
    }
)
"""Every other action is safe."""


class Refusal(NamedTuple):
    code: str
    message: str
    hint: str


def risk_of(action: Action, *, is_forced: bool = False) -> Risk:
    """One that is forced to let go of storage may lose what it runs in there."""
    return ACTION_RISKS.get(action, Risk.INTERRUPTS if is_forced else Risk.SAFE)


def is_above(risk: Risk, limit: Risk) -> bool:
    return RISKS.index(risk) > RISKS.index(limit)


def problem_of(ref: Ref, resource: Resource | None, found: Refusal) -> Problem:
    """The refusal, with the place of the document that it is about."""
    return Problem(
        code=found.code,
        message=found.message,
        hint=found.hint,
        source=resource.source() if resource else None,
        ref=str(ref),
    )


def absence(resource: Resource, absent: Mapping[Ref, Problem]) -> Problem | None:
    """What it refers to is itself refused, and so does not exist yet; for the same reason."""
    for reference in KINDS[resource.ref.kind].refs(resource):
        cause = absent.get(reference.ref)
        if cause is not None:
            message = f"it needs {reference.ref}, which is blocked: {cause.message}"
            return problem_of(resource.ref, resource, Refusal(cause.code, message, cause.hint))
    return None
