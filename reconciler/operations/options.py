"""What may be asked of a plan; part of it, and no flag that changes it later."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.plan import Risk


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """`only` are refs to limit the plan to; `hold_above` holds changes of a higher risk."""

    only: tuple[str, ...] = ()
    refresh: bool = False
    hold_above: Risk | None = None
