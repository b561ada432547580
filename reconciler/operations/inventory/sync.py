"""Sync: how a plan made now compares with what is applied, one word for each allocation.

Words for people only: a plan says what would be done and why. They are kept in the cache beside the
state for as long as a plan would be the same, so that looking on costs no plan each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace

from reconciler.model.codec import decode, encode
from reconciler.model.codes import CODES
from reconciler.model.condition import NOTHING, Condition, Sync
from reconciler.model.moment import parse_moment
from reconciler.model.plan.plan import Action, Change, Plan
from reconciler.model.problem import HELD_CODES, WAITING_CODES
from reconciler.model.records import dataclass
from reconciler.model.rules import holding
from reconciler.model.symptom import Diagnosis, Sort
from reconciler.operations.cache.plan_cache import input_key, recall_plan
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.lease import is_held
from reconciler.operations.options import PlanOptions
from reconciler.operations.views import AllocationRow, NeedsYou, PendingChanges

SPACE = "standings"
CONSENT, NO_ROOM = "held_for_approval", "sku_unavailable"

SYNC: tuple[tuple[Sync, Callable[[Change], bool]], ...] = (
    (Sync.HELD, lambda c: c.problem is not None and c.problem.code in HELD_CODES),
    (Sync.WAITING, lambda c: c.problem is not None and c.problem.code in WAITING_CODES),
    (Sync.BLOCKED, lambda c: c.problem is not None or c.action in (Action.BLOCKED, Action.FROZEN)),
    (Sync.DRIFTED, lambda c: c.action is Action.REPAIR),
    (Sync.CHANGES, lambda c: True),
)
"""The first row that holds is the word; of what no plan speaks is `in_sync`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSummary:
    """What `status` tells of a plan: in numbers, and each allocation that is not in sync.

    `wanted` are the allocations it speaks of as their documents say them, by ref. It holds from
    `made_at` until `next_moment`, empty for no end.
    """

    made_at: str
    next_moment: str = ""
    pending: PendingChanges
    wanted: tuple[AllocationRow, ...] = ()
    needs: Mapping[str, NeedsYou] = field(default_factory=dict)


def sync_of(change: Change) -> Condition:
    """Its cause is the code of what keeps it from being done, else what would be done."""
    word = next(holding(SYNC, change))
    cause = change.problem.code if change.problem is not None else str(change.action)
    return Condition(word=word, cause=cause)


def as_it_goes(fleet: Fleet) -> PlanOptions:
    """A plan of what will be done: alone where a loop lives, else with somebody who is asked."""
    return PlanOptions(unattended=is_held(fleet))


def recall_standing(fleet: Fleet) -> SyncSummary | None:
    """The standing of the plan of this very input; None if no plan was made since it changed."""
    options = as_it_goes(fleet)
    with fleet.reading() as database:
        key = input_key(fleet, options, database)
    if not key:
        return None
    with fleet.cache() as cache:
        row = cache.get_many(SPACE, [key]).get(key)
    if row is None:
        plan = recall_plan(fleet, options)
        return None if plan is None else standing_of(plan)
    standing = decode(SyncSummary, json.loads(row))
    made, ends = parse_moment(standing.made_at), parse_moment(standing.next_moment)
    now = fleet.now()
    over = made is None or now < made or (ends is not None and now >= ends)
    return None if over else standing


def make_standing(fleet: Fleet, make: Callable[[Fleet, PlanOptions], Plan]) -> SyncSummary:
    """The standing of a plan that is made now, and remembered. `make` loads what planning takes."""
    options = as_it_goes(fleet)
    with fleet.reading() as database:
        before = input_key(fleet, options, database)
    standing = standing_of(make(fleet, options))
    with fleet.reading() as database:
        key = input_key(fleet, options, database)
    # Somebody may have edited meanwhile: only what was the same before and after is known.
    if key and key == before:
        with fleet.cache() as cache:
            cache.put_many(SPACE, {key: json.dumps(encode(standing))})
    return standing


ALARMS = frozenset({"revocations_guard", "revocation_unread", "removals_guard"})
"""Codes of what waits for somebody, and looks like a mistake of many people's concern."""


def keep_alarms(fleet: Fleet, plan: Plan) -> None:
    """Remember a plan that holds what `doctor` is to tell of, which makes none itself."""
    if not any(c.problem is not None and c.problem.code in ALARMS for c in plan.changes):
        return
    with fleet.reading() as database:
        key = input_key(fleet, PlanOptions(), database)
    if key:
        with fleet.cache() as cache:
            cache.put_many(SPACE, {key: json.dumps(encode(standing_of(plan)))})


def alarms(fleet: Fleet) -> Iterator[Diagnosis]:
    """What the last plan of this very input held so, each code once."""
    standing = recall_standing(fleet)
    held: dict[str, list[str]] = {}
    for ref, need in (standing.needs if standing else {}).items():
        if need.code in ALARMS:
            held.setdefault(need.code, []).append(ref)
    for code, refs in held.items():
        more = f" and {len(refs) - 1} more" if len(refs) > 1 else ""
        yield Diagnosis(
            sort=Sort.ALARM,
            code=code,
            about=refs[0],
            text=f"{CODES[code]}: held, {refs[0]}{more}",
            command="gpuaas plan",
        )


def standing_of(plan: Plan) -> SyncSummary:
    return SyncSummary(
        made_at=plan.made_at,
        next_moment=plan.next_moment,
        pending=_pending(plan),
        wanted=tuple(_wanted(plan)),
        needs=dict(_needs(plan)),
    )


def left_of(plan: Plan, done: Iterable[Change]) -> Plan:
    """The plan without what was done by it."""
    refs = {change.ref for change in done}
    return replace(plan, changes=tuple(c for c in plan.changes if c.ref not in refs))


def scope_of(plan: Plan) -> Collection[str] | None:
    """The refs that a plan of some part speaks of; None for one of the whole fleet."""
    return {str(change.ref) for change in plan.changes} if plan.only else None


def synced(
    rows: Iterable[AllocationRow],
    standing: SyncSummary,
    project: str = "",
    *,
    only: Collection[str] | None = None,
) -> Iterator[AllocationRow]:
    """The rows with what a plan of now says of each, and those that are wanted and not applied.

    With `only` it says nothing of any other, and such a row stays as it is.
    """
    words = {row.ref: row for row in standing.wanted}
    told = [
        _beside(row, words.get(row.ref)) if only is None or row.ref in only else row for row in rows
    ]
    known = {row.ref for row in told}
    told += [
        row
        for row in standing.wanted
        if row.ref not in known and project in ("", row.ref.split("/")[1])
    ]
    yield from sorted(told, key=lambda row: row.ref)


def _beside(row: AllocationRow, planned: AllocationRow | None) -> AllocationRow:
    if planned is None:
        return replace(row, sync=Sync.IN_SYNC)
    return replace(row, sync=planned.sync, sync_cause=planned.sync_cause)


def needs_of(standing: SyncSummary, waiting: Collection[str]) -> Iterator[tuple[str, NeedsYou]]:
    """What the plan would not do, by ref; who waits for room is told of already."""
    for ref, need in standing.needs.items():
        if need.code != NO_ROOM or ref not in waiting:
            yield ref, need


def _needs(plan: Plan) -> Iterator[tuple[str, NeedsYou]]:
    if errors := [problem for problem in plan.problems if problem.is_error]:
        text = errors[0].message if len(errors) == 1 else f"{len(errors)} problems in the specs"
        need = NeedsYou(kind="error", text=text, command="gpuaas validate", code=errors[0].code)
        yield "", need
    for change in plan.changes:
        if change.problem is None:
            continue
        code, ref = change.problem.code, str(change.ref)
        held = code == CONSENT
        yield (
            ref,
            NeedsYou(
                kind=sync_of(change).word,
                text=f"{change.action} {ref}" if held else f"{ref} {code}",
                command=_remedy(change),
                code=code,
            ),
        )


def _remedy(change: Change) -> str:
    if change.problem is not None and change.problem.code == CONSENT:
        return "gpuaas apply"
    return "gpuaas approvals" if change.fingerprint else f"gpuaas why {change.ref}"


def _wanted(plan: Plan) -> Iterator[AllocationRow]:
    for change in plan.changes:
        if change.ref.kind == "allocation":
            spec: Mapping[str, str] = (change.normal or {}).get("spec", {})
            sync = sync_of(change)
            yield AllocationRow(
                ref=str(change.ref),
                owner=spec.get("owner", ""),
                sku=spec.get("sku", ""),
                node="",
                slots=(),
                phase="",
                health=NOTHING,
                login="",
                sync=sync.word,
                sync_cause=sync.cause,
            )


def _pending(plan: Plan) -> PendingChanges:
    words = [sync_of(change).word for change in plan.changes]
    return PendingChanges(
        commit=plan.revision.commit,
        dirty=plan.revision.dirty,
        changes=sum(word in (Sync.CHANGES, Sync.DRIFTED) for word in words),
        held=words.count(Sync.HELD),
        blocked=words.count(Sync.BLOCKED),
        waiting=words.count(Sync.WAITING),
        errors=sum(problem.is_error for problem in plan.problems),
    )
