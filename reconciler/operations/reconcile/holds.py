"""Holds: changes that wait for approval, for `gpuaas doctor`, which makes no plan.

Kept by whoever makes such a plan: each round of the loop, and `gpuaas approvals`. What became of
it by another way is seen by the state.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from reconciler.model.codec import decode, encode
from reconciler.model.codes import CODES
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.plan import Change
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.world import World
from reconciler.model.symptom import Diagnosis, Sort
from reconciler.operations.fleet import Fleet
from reconciler.operations.rounds.rounds import Tick
from reconciler.planner.approval import live
from reconciler.store.serial import read_digests

SPACE, KEY = "holds", "last"
LOOP = "loop"

GUARDS = frozenset({"removals_guard", "project_guard", "folder_guard", "revocations_guard"})
"""What looks like a mistake."""

SOURCE = frozenset({"history_rewritten", "commit_unsigned"})
AWAY = frozenset({"source_unreachable", "source_unreadable"})
EMPTY = frozenset({"spec_root_empty", "spec_root_missing"})
BY_POLICY, OVER = "held_by_policy", "approval_over"
CHANGES = GUARDS | {BY_POLICY}
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`about` is a ref, or `loop` with a `text`. `recorded` is the digest of its record then."""

    about: str
    code: str
    since: str = ""
    text: str = ""
    fingerprint: str = ""
    recorded: str = ""


def keep_round(fleet: Fleet, found: Tick) -> None:
    """While the source is away, what was wrong with its newest commit is unknown, and not over."""
    if found.plan is not None:
        keep_plan(fleet, found.held, (*found.plan.problems, *found.problems))
    if not any(one.code in AWAY for one in found.problems):
        _keep(fleet, _of_loop(found.problems, SOURCE), SOURCE)


def keep_refusal(fleet: Fleet, problems: Iterable[Problem]) -> None:
    """Where no round was possible, what was held before is still held."""
    found = tuple(_of_loop(problems, SOURCE | EMPTY))
    _keep(fleet, found, {one.code for one in found})


def keep_plan(fleet: Fleet, changes: Iterable[Change], problems: Iterable[Problem]) -> None:
    """What a plan that nobody is asked about holds, in the place of what the last one held."""
    held = [
        Hold(about=str(one.ref), code=one.problem.code, fingerprint=one.fingerprint)
        for one in changes
        if one.problem is not None and one.problem.code in CHANGES
    ]
    _keep(fleet, (*held, *_of_loop(problems, EMPTY)), CHANGES | EMPTY)


def diagnose_holds(fleet: Fleet, world: World, told: Collection[str]) -> Iterator[Diagnosis]:
    """But for the codes of which somebody has `told` already."""
    held: dict[str, list[Hold]] = {}
    approved = live(world.consents, fleet.now())
    for one in _read(fleet):
        if one.code not in told and _stands(one, world, approved):
            held.setdefault(one.code, []).append(one)
    for code in sorted(held):
        if code in SOURCE | EMPTY:
            yield _of_source(held[code][0])
        elif code in GUARDS:
            text = f"{CODES[code]}: held, {_and_more(held[code])}"
            yield _of_changes(Sort.ALARM, held[code], text)
    yield from _of_policy(held.get(BY_POLICY, ()), fleet.now())
    yield from _of_approvals(held, world, fleet.now())


def _of_loop(problems: Iterable[Problem], codes: Collection[str]) -> Iterator[Hold]:
    found = {one.code: one for one in problems if one.code in codes}
    return (Hold(about=LOOP, code=one.code, text=one.message) for one in found.values())


def _keep(fleet: Fleet, found: Iterable[Hold], codes: Collection[str]) -> None:
    """In the place of those of `codes`. Nothing is written where nothing is otherwise."""
    before = _read(fleet)
    known = {(one.about, one.code): one for one in before}
    kept, new = [one for one in before if one.code not in codes], list[Hold]()
    for one in found:
        former = known.get((one.about, one.code))
        dated = replace(one, since=former.since if former else format_moment(fleet.now()))
        if one.about == LOOP:
            kept.append(dated)
        elif former is not None and former.fingerprint == one.fingerprint:
            kept.append(replace(dated, recorded=former.recorded))
        else:
            new.append(dated)
    if new:
        with fleet.reading() as database:
            recorded = read_digests(database, [one.about for one in new])
        kept += (replace(one, recorded=recorded.get(one.about, "")) for one in new)
    if set(kept) != set(before):
        with fleet.cache() as cache:
            cache.put_many(SPACE, {KEY: json.dumps([encode(one) for one in kept])})


def _read(fleet: Fleet) -> tuple[Hold, ...]:
    with fleet.cache() as cache:
        row = cache.get_many(SPACE, [KEY]).get(KEY)
    try:
        return tuple(decode(Hold, one) for one in json.loads(row)) if row else ()
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def _stands(one: Hold, world: World, approved: Mapping[Ref, frozenset[str]]) -> bool:
    """Whether it is still to be done, and for somebody: it may have been applied by hand."""
    ref = parse_ref(one.about)
    if ref is None:
        return one.about == LOOP
    recorded = world.recorded.get(ref)
    unchanged = (recorded.digest if recorded else "") == one.recorded
    return unchanged and one.fingerprint not in approved.get(ref, ())


def _of_source(one: Hold) -> Diagnosis:
    return Diagnosis(
        sort=Sort.ALARM,
        code=one.code,
        about=one.about,
        text=one.text,
        since=one.since,
        command=f"gpuaas runbook {one.code}",
    )


def _of_changes(sort: Sort, holds: Iterable[Hold], text: str, code: str = "") -> Diagnosis:
    first = min(holds, key=lambda one: (one.since, one.about))
    return Diagnosis(
        sort=sort,
        code=code or first.code,
        about=first.about,
        text=text,
        since=first.since,
        command="gpuaas approvals",
    )


def _of_policy(holds: Iterable[Hold], now: datetime) -> Iterator[Diagnosis]:
    """What the Policy holds is as somebody wants it, for a while."""
    old = [one for one in holds if (at := parse_moment(one.since)) and now - at >= DAY]
    if old:
        text = f"{CODES[BY_POLICY]}: held for more than a day, {_and_more(old)}"
        yield _of_changes(Sort.STUCK, old, text)


def _of_approvals(
    held: Mapping[str, Iterable[Hold]], world: World, now: datetime
) -> Iterator[Diagnosis]:
    """Somebody has said yes to just this, and it was not done in time."""
    at = format_moment(now)
    waiting = {(one.about, one.fingerprint): one for holds in held.values() for one in holds}
    over = {(str(one.ref), one.fingerprint): one for one in world.consents if one.expires_at <= at}
    for key in sorted(over.keys() & waiting.keys()):
        consent = over[key]
        text = f"{consent.action} {key[0]}, approved by {consent.actor}, was not done in time"
        hold = replace(waiting[key], since=consent.expires_at)
        yield _of_changes(Sort.STUCK, [hold], text, OVER)


def _and_more(holds: Iterable[Hold]) -> str:
    names = sorted({one.about for one in holds})
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
