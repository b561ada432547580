"""A plan carried out on paper: the World after an apply in which every host did as it was told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from reconciler import shipped
from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Action, Change, Order, Plan, Step
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import World
from reconciler.operations.apply.record import recorded_as
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.plan import plan
from tests.planner.fleet import NOW, desired, world


def origins(files: Mapping[Ref, str], gone: Collection[Ref]) -> Mapping[Ref, Origin]:
    return {ref: Origin(commit="c0ffee", author="Ana", email="ana@corp.example") for ref in files}


def make_plan(of: Desired, seen: World | None = None, **changes: Any) -> Plan:
    values = {
        "desired": of,
        "world": seen if seen is not None else world(of),
        "now": NOW,
        "templates": shipped.templates(),
        "sign": lambda text: "signed",
        "origins": origins,
    }
    return plan(PlanRequest(**{**values, **changes}))


def applied(done: Plan, before: World) -> World:
    """Everything active is recorded, every claim made, every release proved."""
    recorded = dict(before.recorded)
    claims = {claim.id: claim for claim in before.claims}
    incarnations = dict(before.counters.incarnations)
    for intent in done.claims:
        claims[intent.id] = Claim(
            id=intent.id,
            allocation_id=intent.allocation_id,
            ref=intent.ref,
            node=intent.node,
            slot=intent.slot,
            shape=intent.shape,
            state=ClaimState.HELD,
            since=format_moment(NOW),
            tenant=intent.tenant,
            project=intent.project,
        )
    for ref in {intent.ref for intent in done.claims}:
        incarnations[ref] = incarnations.get(ref, 0) + 1
    steps = {step.id: step for step in done.steps}
    for change in done.active:
        ended = {
            step.item.allocation_id
            for step in map(steps.__getitem__, change.steps)
            if step.order is Order.RETIRE
            and change.action in (Action.RELEASE, Action.REPLACE)
            and not change.undo_minutes
        }
        if ended:
            claims = {id: c for id, c in claims.items() if c.allocation_id not in ended}
        if change.action in (Action.RELEASE, Action.FORGET) and not change.undo_minutes:
            recorded.pop(change.ref, None)
            continue
        former = recorded.pop(change.former, None) if change.former else None
        if change.former:
            claims = {
                id: replace(c, ref=change.ref) if c.ref == change.former else c
                for id, c in claims.items()
            }
        known = former or recorded.get(change.ref)
        own = [steps[id] for id in change.steps]
        recorded[change.ref] = recorded_as(change, known, own, "")
    attachments = _attachments(done, before)
    volumes = dict(before.volumes)
    for begun in done.volumes:
        incarnations[begun.ref] = incarnations.get(begun.ref, 0) + 1
        volumes[begun.ref] = Volume(
            id=begun.id,
            ref=begun.ref,
            class_name=begun.class_name,
            backend=begun.backend,
            node=begun.node,
            size_gib=begun.size_gib,
            state=VolumeState.MADE,
        )
    logins = {one.login for one in recorded.values() if one.login}
    accounts = [intent for intent in done.claims if intent.uid]
    return replace(
        before,
        serial=before.serial + 1,
        recorded=recorded,
        observations=_showing(before.observations, done.steps),
        claims=tuple(claims.values()),
        counters=replace(
            before.counters,
            incarnations=incarnations,
            logins=before.counters.logins | logins,
            uids={**before.counters.uids, **{one.allocation_id: one.uid for one in accounts}},
            gids={**before.counters.gids, **{one.project: one.gid for one in accounts}},
        ),
        volumes=volumes,
        attachments=attachments,
        waiting={ref: before.waiting.get(ref, format_moment(NOW)) for ref in done.waiting},
    )


def _attachments(done: Plan, before: World) -> tuple[Attachment, ...]:
    """Those that were detached have ended, those that were begun are there."""
    gone = {
        (step.item.allocation_id, one.id)
        for step in done.steps
        if step.verb == "storage.detach"
        for one in step.item.volumes
    }
    kept = (one for one in before.attachments if (one.allocation_id, one.volume) not in gone)
    return (*kept, *done.attachments)


def _showing(before: Mapping[str, Observation], steps: Iterable[Step]) -> Mapping[str, Observation]:
    """What each host shows once it has done these; one that was never seen is not seen now."""
    seen = dict(before)
    for step in steps:
        one = seen.get(step.node)
        if one is None or one.facts is None:
            continue
        shown = {**(one.facts.paths or {}), **(one.facts.platform or {}), **step.expected}
        there = {key: fact for key, fact in shown.items() if fact is not None}
        paths = {key: fact for key, fact in there.items() if key.startswith("/")}
        named = {key: fact for key, fact in there.items() if key not in paths}
        known = named or one.facts.platform
        facts = replace(one.facts, paths=paths, platform=named if known else known)
        seen[step.node] = replace(one, facts=facts)
    return seen


def settled(documents: Iterable[Mapping[str, Any]], **changes: Any) -> World:
    """The World once these documents are applied; nothing of them may be blocked."""
    wanted = desired(documents)
    first = world(wanted, **changes)
    made = make_plan(wanted, first)
    assert [c.problem for c in made.changes if c.problem] == []
    return applied(made, first)


def told(made: Plan) -> list[str]:
    """The plan in short: `create allocation/vision/a gpu01/s0`, `blocked … sku_unavailable`."""
    return [_told(change) for change in made.changes]


def _told(change: Change) -> str:
    words = [change.action.value, str(change.ref)]
    if change.problem:
        words.append(change.problem.code)
    elif change.placement and change.action in (Action.CREATE, Action.REPLACE):
        words.append(f"{change.placement.node}/{','.join(change.placement.slots)}")
    return " ".join(words)


def line(made: Plan, ref: str) -> Change:
    (found,) = [c for c in made.changes if str(c.ref) == ref]
    return found


def allocation_ref(name: str, project: str = "vision") -> Ref:
    return Ref("allocation", project, name)
