"""Risks: what an action may cost somebody."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from reconciler.model.plan.plan import RISKS, Action, Risk

ACTION_RISKS: Mapping[Action, Risk] = MappingProxyType(
    {
        Action.RELEASE: Risk.DESTROYS,
        Action.REPLACE: Risk.DESTROYS,
        Action.RESTART: Risk.INTERRUPTS,
    }
)
"""Every other action is safe."""


def risk_of(action: Action, *, is_forced: bool = False) -> Risk:
    """One that is forced to let go of storage may lose what it runs in there."""
    return ACTION_RISKS.get(action, Risk.INTERRUPTS if is_forced else Risk.SAFE)


def is_above(risk: Risk, limit: Risk) -> bool:
    return RISKS.index(risk) > RISKS.index(limit)
