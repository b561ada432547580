"""Approvals in a plan: which change each one is for, and what of the plan can be approved.

A fingerprint stays as long as nothing about the change does otherwise: who asks, when, and what
else there is in the plan are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.moment import format_moment
from reconciler.model.plan.approval import Consent
from reconciler.model.plan.plan import Risk
from reconciler.model.ref import Ref
from reconciler.planner.core.difference import Difference
from reconciler.planner.nodes.prepare import Preparation


def fingerprint_of(difference: Difference, risk: Risk, begun: Iterable[str] = ()) -> str:
    """`begun` are ids of what is to go and was never recorded."""
    resource, recorded = difference.resource, difference.recorded
    return digest(
        {
            "ref": str(difference.ref),
            "action": difference.action.value,
            "risk": risk.value,
            "former": str(difference.former or ""),
            "desired": resource.digest if resource else "",
            "recorded": recorded.digest if recorded else "",
            "generation": recorded.generation if recorded else 0,
            "id": recorded.id if recorded else ",".join(sorted(set(begun))),
            "fields": [encode(field) for field in difference.fields],
            "returns": bool(difference.undo_minutes),
        }
    )


def fingerprint_of_preparation(preparation: Preparation) -> str:
    return digest(
        {
            "ref": str(preparation.resource.ref),
            "action": "prepare",
            "risk": preparation.risk.value,
            "basis": preparation.basis,
        }
    )


def live(consents: Iterable[Consent], now: datetime | None) -> Mapping[Ref, frozenset[str]]:
    """Fingerprints by ref, of those that are neither used nor over."""
    at = format_moment(now) if now else ""
    found: dict[Ref, set[str]] = {}
    for one in consents:
        if not one.used_at and at < one.expires_at:
            found.setdefault(one.ref, set()).add(one.fingerprint)
    return {ref: frozenset(fingerprints) for ref, fingerprints in found.items()}
