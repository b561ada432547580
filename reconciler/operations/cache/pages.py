"""Pages: status of a whole fleet, cached for as long as it would be shown again.

They lie in the cache beside the state. A page is shown again only if specs, state, program and
settings are those that it was made from, nobody is at work, and time alone changes nothing of it.
This module loads none of the rooms that make pages: that is its use.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from reconciler.model.canonical import digest
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.problem import ProblemError
from reconciler.operations.cache.input_key import fleet_key
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.lease import is_held, tree_stamp
from reconciler.specs.git.tree_keys import asking_for_tree
from reconciler.store.file.lock import holder
from reconciler.store.serial import read_last_run

SPACE = "pages"


class Page(NamedTuple):
    """What was kept, in plain JSON values, and how many seconds ago it was made."""

    value: Any
    age: int


def page_key(fleet: Fleet, about: str) -> str:
    """The key of the page that is `about` something; empty while it may change, or nobody can
    tell.
    """
    with suppress(ProblemError):
        with asking_for_tree(fleet.settings) as tree, fleet.reading() as database:
            run, idle = read_last_run(database), holder(fleet.state / "lock") is None
            key = fleet_key(fleet, database, tree)
        loop = is_held(fleet)
        if key and idle:
            return digest([key, run, about, loop, tree_stamp(fleet) if loop else ""])
    return ""


def recall_page(fleet: Fleet, key: str) -> Page | None:
    with fleet.cache() as cache:
        row = cache.get_many(SPACE, [key]).get(key) if key else None
    if row is None:
        return None
    kept, now = json.loads(row), fleet.now()
    made, ends = parse_moment(kept["made"]), parse_moment(kept["until"])
    if made is None or now < made or (ends is not None and now >= ends):
        return None
    return Page(value=kept["value"], age=int((now - made).total_seconds()))


def remember_page(fleet: Fleet, key: str, value: object, until: datetime | None) -> None:
    """`until` is None for a page that time alone does not change."""
    ends = format_moment(until) if until else ""
    kept = {"made": format_moment(fleet.now()), "until": ends, "value": value}
    with fleet.cache() as cache:
        cache.put_many(SPACE, {key: json.dumps(kept)})
