"""A plan for machines: the model's JSON without host work items and whole specs."""

from __future__ import annotations

from dataclasses import replace

from reconciler.cli.text import HIDDEN
from reconciler.cli.views.documents import without_secret
from reconciler.cli.views.plan_words import hides, short, total
from reconciler.cli.views.sections import counts
from reconciler.model.codec import encode
from reconciler.model.plan.approval import short_id
from reconciler.model.plan.plan import Change, FieldChange, Plan, Step


def view(plan: Plan) -> dict[str, object]:
    """The `result` of `schemas/plan.schema.json`. Problems of the plan stand in the envelope."""
    shown: dict[str, object] = encode(plan)
    del shown["problems"]
    shown["changes"] = [change_view(change) for change in plan.changes]
    shown["confirmed"] = [change_view(change) for change in plan.confirmed]
    shown["waves"] = [
        {"number": wave.number, "steps": [_step(step) for step in wave.steps]}
        for wave in plan.waves
    ]
    shown["shortId"] = short(plan) if plan.fingerprint else ""
    shown["counts"] = counts(plan)
    shown["pricePerHour"] = total(plan)
    return shown


def change_view(change: Change) -> dict[str, object]:
    """One line of a plan."""
    shown: dict[str, object] = encode(change)
    shown.pop("normal", None)
    if change.fingerprint:
        shown["approvalId"] = short_id(change.fingerprint)
    if change.problem is not None:
        shown["problem"] = encode(without_secret(change.problem))
    shown["fields"] = [_field(field) for field in change.fields]
    return shown


def _step(step: Step) -> dict[str, object]:
    shown: dict[str, object] = encode(step)
    del shown["item"]
    return shown


def _field(field: FieldChange) -> dict[str, object]:
    if hides(field):
        field = replace(field, before=HIDDEN, after=HIDDEN)
    shown: dict[str, object] = encode(field)
    return shown
