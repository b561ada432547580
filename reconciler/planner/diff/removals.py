"""Removals: what no document names any more, and whether it counts as removed.

In a repository only a commit removes something. And so many people at once lose their access by a
merge that went wrong rather than by intent: an explicit word, a suspension, is never held.
"""

from __future__ import annotations

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.spec.desired import Origin
from reconciler.planner.context import Situation
from reconciler.planner.core.authorship import DOUBTS, doubted
from reconciler.planner.core.difference import Difference, is_consented

ALL_REMOVALS = "all"
"""The word that names every removal that no commit has made."""

UNCOMMITTED, REVOCATIONS = "removal_uncommitted", "revocations_guard"

STAYS = frozenset({UNCOMMITTED, REVOCATIONS})
"""Refusals of an absence itself: whoever was let in by what is absent stays so."""

Held = tuple[str, str, str]
"""Code, message and hint."""


def is_gone(difference: Difference, situation: Situation) -> bool:
    """Whether it would be let go of since no document in sight names it."""
    leaves = difference.action in (Action.RELEASE, Action.FORGET)
    return leaves and difference.ref not in situation.desired.resources


def stays(difference: Difference, problem: Problem) -> bool:
    """Whether whoever it shuts out is let in as before.

    A doubt about who wrote a change holds what that gives, and never what it takes.
    """
    return problem.code in STAYS or (difference.resource is None and problem.code in DOUBTS)


def uncommitted(difference: Difference, situation: Situation) -> Held | None:
    """A removal that no commit has made is none, unless somebody names it."""
    recorded, desired, ref = difference.recorded, situation.desired, difference.ref
    named = situation.uncommitted
    if not is_gone(difference, situation) or str(ref) in named or ALL_REMOVALS in named:
        return None
    if recorded is None or recorded.phase is Phase.RELEASING or ref in desired.lessened:
        return None
    name_it = f"name it: gpuaas apply --uncommitted-removals={ref}"
    if ref in desired.absent:
        file = desired.absent[ref].file
        return (
            UNCOMMITTED,
            f"{file} is not as committed: the commit still has this",
            (f"commit its removal, or {name_it}"),
        )
    if not desired.knows or is_consented(difference):
        return None
    origin = situation.origins.get(ref, Origin())
    if origin.doubt is not None:
        return (origin.doubt, *doubted(origin.doubt))
    if origin.commit:
        return None
    file = recorded.file or "its file"
    message = f"{file} no longer has it, and no commit of this branch took it away"
    return UNCOMMITTED, message, f"bring it back, or {name_it}"
