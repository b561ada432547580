"""A plan that found nothing to do is remembered: planning is pure, so equal input needs no work.

Kept in the cache beside the state, never in it. Only empty plans are kept; any other is made anew.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from reconciler import shipped
from reconciler.model.canonical import digest
from reconciler.model.codec import decode, encode
from reconciler.model.document import DocumentCache
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan import Plan
from reconciler.operations.wiring import Fleet
from reconciler.specs.library import tree_key
from reconciler.specs.loading import version

SPACE = "empty plans"


def input_key(fleet: Fleet, stamp: str) -> str:
    """A key over everything a plan of the whole fleet is made from; empty if nobody can tell.

    `stamp` stands for the state. Specs count as known only where git says that they are committed.
    """
    tree = tree_key(fleet.settings)
    if not tree:
        return ""
    program = version(shipped.schemas())
    return digest([tree, stamp, program, encode(fleet.settings)])


def recall(cache: DocumentCache, key: str, now: datetime) -> Plan | None:
    """The empty plan made from the same input, told of now; None if time may have changed it."""
    row = cache.get_many(SPACE, [key]).get(key) if key else None
    if row is None:
        return None
    plan = decode(Plan, json.loads(row))
    made, ends = parse_moment(plan.made_at), parse_moment(plan.next_moment)
    if made is None or now < made or (ends is not None and now >= ends):
        return None
    age = plan.figures.observed_age
    if age is not None:
        age += int((now - made).total_seconds())
    figures = replace(plan.figures, observed_age=age)
    return replace(plan, made_at=format_moment(now), figures=figures)


def remember(cache: DocumentCache, key: str, plan: Plan) -> None:
    if key and not (plan.changes or plan.problems or plan.waiting):
        cache.put_many(SPACE, {key: json.dumps(encode(plan))})
