"""Ages of conditions: how long allocations have been as they are, as far as anybody has looked.

Remembered in the cache beside the state by whoever looks, never in it: that a plan would say
something else today is no change of the state. Whoever loses the cache counts from their next look.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from reconciler.model.condition import Condition, Sync
from reconciler.model.moment import format_moment
from reconciler.model.ref import Ref
from reconciler.operations.fleet import Fleet
from reconciler.operations.views import AllocationRow
from reconciler.store.cache import SqliteCache

SPACE = "conditions"


class _Axes(NamedTuple):
    """What was seen of one allocation when somebody last looked."""

    sync: Condition
    health: Condition


UNSEEN = _Axes(Condition(word=""), Condition(word=""))
NOBODY: Mapping[Ref, str] = MappingProxyType({})


def aged(
    fleet: Fleet,
    rows: Iterable[AllocationRow],
    waiting: Mapping[Ref, str] = NOBODY,
    *,
    of_all: bool = False,
) -> tuple[AllocationRow, ...]:
    """The rows with the ages of both axes; what has turned since the last look is remembered.

    `waiting` tells since when requests wait for room. Of a row without a word of a plan that axis
    is neither told nor forgotten. Where the rows are `of_all` that is and is wanted, whoever comes
    back under a name of before begins anew.
    """
    found = tuple(rows)
    since = {str(ref): at for ref, at in waiting.items()}
    now = format_moment(fleet.now())
    with fleet.cache() as cache:
        known = _known(cache, found)
        told = tuple(_aged(row, known.get(row.ref, UNSEEN), since, now) for row in found)
        seen = {row.ref: _seen(row, known.get(row.ref, UNSEEN)) for row in told}
        turned = {ref: axes for ref, axes in seen.items() if axes != known.get(ref)}
        cache.put_many(SPACE, {ref: json.dumps(axes) for ref, axes in _plain(turned).items()})
        if of_all:
            cache.keep_only(SPACE, seen)
    return told


def as_last_planned(fleet: Fleet, rows: Iterable[AllocationRow]) -> tuple[AllocationRow, ...]:
    """The rows with what the last plan that somebody looked at said of each, where one did."""
    found = tuple(rows)
    now = format_moment(fleet.now())
    with fleet.cache() as cache:
        known = _known(cache, found)
    return tuple(
        replace(row, sync=last.word, sync_cause=last.cause, sync_since=last.since)
        for row in found
        for last in (_still(known.get(row.ref, UNSEEN).sync, row.since, now),)
    )


def as_last_seen(
    fleet: Fleet, ref: Ref, health: Condition, least: str = ""
) -> tuple[Condition, Condition]:
    """Sync as the last plan said, without a word if none did, and `health` with its age.

    Neither is older than `least`, since when it is claimed.
    """
    with fleet.cache() as cache:
        before = _read(cache.get_many(SPACE, [str(ref)]).get(str(ref), "")) or UNSEEN
    now = format_moment(fleet.now())
    return _still(before.sync, least, now), replace(
        health, since=_not_ahead(health, before.health, least, now)
    )


def _aged(row: AllocationRow, before: _Axes, waiting: Mapping[str, str], now: str) -> AllocationRow:
    exact = waiting.get(row.ref, "") if row.sync == Sync.WAITING else row.sync_since
    sync = Condition(word=row.sync, cause=row.sync_cause, since=exact)
    health = Condition(word=row.health, cause=row.health_cause, since=row.health_since)
    return replace(
        row,
        sync_since=_since(sync, before.sync, row.since, now) if row.sync else "",
        health_since=_since(health, before.health, row.since, now),
    )


def _since(one: Condition, before: Condition, least: str, now: str) -> str:
    """What is known exactly, else its first sight; nothing is older than what it is said of, and
    what a clock has told that was ahead is from now on.
    """
    return _not_ahead(one, before, least, now) or now


def _not_ahead(one: Condition, before: Condition, least: str, now: str) -> str:
    """The same; empty for what was never seen."""
    same = (one.word, one.cause) == (before.word, before.cause)
    return min(one.since or (max(before.since, least) if same and before.since else ""), now)


def _still(before: Condition, least: str, now: str) -> Condition:
    return replace(before, since=_not_ahead(replace(before, since=""), before, least, now))


def _seen(row: AllocationRow, before: _Axes) -> _Axes:
    sync = Condition(word=row.sync, cause=row.sync_cause, since=row.sync_since)
    health = Condition(word=row.health, cause=row.health_cause, since=row.health_since)
    return _Axes(sync if row.sync else before.sync, health)


def _known(cache: SqliteCache, rows: Iterable[AllocationRow]) -> Mapping[str, _Axes]:
    texts = cache.get_many(SPACE, (row.ref for row in rows))
    return {ref: axes for ref, text in texts.items() if (axes := _read(text)) is not None}


def _plain(axes: Mapping[str, _Axes]) -> Mapping[str, list[list[str]]]:
    return {ref: [[one.word, one.cause, one.since] for one in both] for ref, both in axes.items()}


def _read(text: str) -> _Axes | None:
    """None for what an earlier or a later program wrote there."""
    try:
        sync, health = (
            Condition(word=str(word), cause=str(cause), since=str(since))
            for word, cause, since in json.loads(text)
        )
    except (ValueError, TypeError):
        return None
    return _Axes(sync, health)
