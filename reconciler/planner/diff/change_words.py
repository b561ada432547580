"""Change words that depend on the context: when a field cannot change, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from reconciler.model.plan.plan import FieldChange
from reconciler.model.ref import Ref
from reconciler.planner.context import Situation
from reconciler.planner.core.difference import Difference
from reconciler.planner.diff.fields import entry_of

Condition = Callable[[Difference, FieldChange, Situation], str]
"""Why the field may not change now; '' if it may."""


def refusal(difference: Difference, field: FieldChange, situation: Situation) -> str:
    """A word that nobody knows refuses: fail closed."""
    if field.rule in ALWAYS_ALLOWED:
        return ""
    return CONDITIONS.get(field.rule, _never)(difference, field, situation)


def _never(difference: Difference, field: FieldChange, situation: Situation) -> str:
    if difference.ref.kind == "grant" and field.path == "spec.allocation":
        project = difference.ref.project
        before = Ref("allocation", project, str(field.before))
        after = Ref("allocation", project, str(field.after))
        if situation.renamed.get(before) == after:
            return ""
    return "it is fixed once recorded; make a new one instead"


def _while_used(difference: Difference, field: FieldChange, situation: Situation) -> str:
    return "others refer to it" if difference.ref in situation.used else ""


def _while_claims_live(difference: Difference, field: FieldChange, situation: Situation) -> str:
    claimed = difference.ref.name in situation.claimed_nodes
    return "allocations hold slots of this node" if claimed else ""


def _while_anything_lives(difference: Difference, field: FieldChange, situation: Situation) -> str:
    claimed = difference.ref.name in situation.claimed_projects
    return "allocations of this project hold slots" if claimed else ""


def _while_slot_claimed(difference: Difference, field: FieldChange, situation: Situation) -> str:
    node, slot = difference.ref.name, entry_of(field.path, "spec.slots")
    if (node, None) in situation.claimed:
        return "an allocation holds the whole node"
    if slot and (node, slot) in situation.claimed:
        return f"an allocation holds slot {slot}"
    return ""


def _once_recorded(difference: Difference, field: FieldChange, situation: Situation) -> str:
    return "" if field.before is None else "it is fixed once recorded; add a new version instead"


def _only_raised(difference: Difference, field: FieldChange, situation: Situation) -> str:
    """A generation that went down would let the next one that is raised pass for done."""
    numbers = isinstance(field.before, int) and isinstance(field.after, int)
    return "it never goes down" if numbers and field.after < field.before else ""


def _while_attached(difference: Difference, field: FieldChange, situation: Situation) -> str:
    return "allocations have it attached" if difference.ref in situation.attached else ""


def _never_smaller(difference: Difference, field: FieldChange, situation: Situation) -> str:
    return "it can only grow" if field.after < field.before else ""


ALWAYS_ALLOWED = frozenset(
    {
        "live",
        "none",
        "replace",
        "approval falls",
        "new placements",
        "new VMs",
        "restart of none, checked",
    }
)

CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "refuse": _never,
        "refuse while used": _while_used,
        "refuse while claims live": _while_claims_live,
        "refuse while anything lives": _while_anything_lives,
        "approval falls; refuse while claimed": _while_slot_claimed,
        "immutable once recorded": _once_recorded,
        "live grow, shrink refuse": _never_smaller,
        "restart": _only_raised,
        "change only while detached": _while_attached,
    }
)
