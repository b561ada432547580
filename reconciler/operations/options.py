"""The options of a plan, which are part of it; no later flag changes it."""

from __future__ import annotations

from datetime import datetime

from reconciler.model.plan.force_detach import NOTHING_FORCED, Forced
from reconciler.model.plan.plan import Risk
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """`only` are refs to limit the plan to; `hold_above` holds changes of a higher risk.

    `unattended` is for a plan that nobody is asked about: what may go alone is a matter of policy.
    `uncommitted` are refs whose removal counts though no commit has made it, or the word for all.
    `leases_from` is the moment from which leases that begin count, now unless it is given.
    """

    only: tuple[str, ...] = ()
    refresh: bool = False
    hold_above: Risk | None = None
    unattended: bool = False
    uncommitted: tuple[str, ...] = ()
    forced: Forced = NOTHING_FORCED
    leases_from: datetime | None = None
