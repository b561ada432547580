"""The plan cache: planning is pure, so a plan without changes holds for equal input.

Kept in the cache beside the state, never in it. Only empty plans of the whole fleet are kept; any
other is made anew. This module loads none of the rooms that make plans: that is its use.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from reconciler.model.canonical import digest
from reconciler.model.codec import decode, encode
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.plan import Plan
from reconciler.operations.cache.input_key import fleet_key
from reconciler.operations.fleet import Fleet
from reconciler.operations.options import PlanOptions
from reconciler.specs.git.tree_keys import asking_for_tree
from reconciler.store.file.database import Database

SPACE = "empty plans"


def recall_plan(fleet: Fleet, options: PlanOptions) -> Plan | None:
    """The empty plan made from this very input, told of now; None if there is none."""
    if options.refresh or not _is_of_all(options):
        return None
    with asking_for_tree(fleet.specs) as tree, fleet.reading() as database:
        key = _of(options, fleet_key(fleet, database, tree))
    if not key:
        return None
    with fleet.cache() as cache:
        row = cache.get_many(SPACE, [key]).get(key)
    return None if row is None else _as_of(decode(Plan, json.loads(row)), fleet.now())


def input_key(fleet: Fleet, options: PlanOptions, database: Database) -> str:
    """A key over everything a plan is made from; empty if nobody can tell, or part is asked for."""
    if not _is_of_all(options):
        return ""
    with asking_for_tree(fleet.specs) as tree:
        return _of(options, fleet_key(fleet, database, tree))


def _is_of_all(options: PlanOptions) -> bool:
    part = options.only or options.uncommitted or options.forced.refs
    return not part and options.hold_above is None


def _of(options: PlanOptions, key: str) -> str:
    """What goes alone is remembered apart from what somebody is asked about."""
    return digest([key, "unattended"]) if key and options.unattended else key


def is_empty(plan: Plan) -> bool:
    """Whether nothing is to be done, shown or waited for."""
    return not (plan.changes or plan.problems or plan.waiting)


def remember(fleet: Fleet, key: str, plan: Plan) -> None:
    with fleet.cache() as cache:
        cache.put_many(SPACE, {key: json.dumps(encode(plan))})


def _as_of(plan: Plan, now: datetime) -> Plan | None:
    """The plan as it is made now; None if time alone may have changed it."""
    made, ends = parse_moment(plan.made_at), parse_moment(plan.next_moment)
    if made is None or now < made or (ends is not None and now >= ends):
        return None
    age = plan.figures.observed_age
    if age is not None:
        age += int((now - made).total_seconds())
    figures = replace(plan.figures, observed_age=age)
    return replace(plan, made_at=format_moment(now), figures=figures)
