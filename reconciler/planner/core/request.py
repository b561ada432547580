"""The request for a plan: everything that a plan is made from, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from reconciler.model.plan.force_detach import NOTHING_FORCED, Forced
from reconciler.model.plan.plan import Risk
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.state.world import World

Origins = Callable[[Mapping[Ref, str], Collection[Ref]], Mapping[Ref, Origin]]
"""Asked for the files of documents, and which of these are gone from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """`only` limits the plan to refs; changes of a higher risk than `hold_above` are held.

    `actor` is the OS user who asks: the author of what no commit has yet. `leases_from` is the
    moment from which leases that begin are counted, `now` unless it is given. `uncommitted` are
    removals that count though no commit has made them, and `forced` allocations from which storage
    is detached even while they work in it. Nobody is asked about one that is `unattended`.
    """

    desired: Desired
    world: World
    now: datetime
    templates: Mapping[str, str]
    sign: Callable[[str], str]
    origins: Origins
    only: tuple[str, ...] = ()
    hold_above: Risk | None = None
    unattended: bool = False
    actor: str = ""
    leases_from: datetime | None = None
    uncommitted: tuple[str, ...] = ()
    forced: Forced = NOTHING_FORCED
