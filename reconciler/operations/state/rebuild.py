"""`state rebuild`: a lost state made again from git and from what hosts report.

It only looks: no host is changed by it, and no tenant notices. What cannot be believed is told
and left out; what nobody can know is written down as a doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from reconciler import shipped
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.state.rebuilt import EndedDoubt, JudgedDoubts, Rebuilt
from reconciler.model.state.world import Doubt, DoubtKind, World
from reconciler.operations.apply.record import recorded_as
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.journal import locking, writing
from reconciler.operations.specs import read_origins
from reconciler.operations.state.collect import (
    RebuildOptions,
    canvass,
    insist_on_a_reason,
    signer_if_any,
    state_id_of,
    to_keep,
)
from reconciler.operations.state.rebuild_findings import Finds, found_rows, node_rows, volume_rows
from reconciler.planner import plan
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.rebuild import volume_records
from reconciler.planner.rebuild.descriptors import FoundDescriptor, read_found, verify
from reconciler.planner.rebuild.taints import judge_doubts
from reconciler.planner.rebuild.trust import Authority, Sighting
from reconciler.planner.rebuild.volume_records import FoundVolume
from reconciler.planner.rebuild.world import (
    floors,
    prepared,
    seed,
    settled,
    usage,
    verdicts,
)
from reconciler.store import rebuild as rebuild_store
from reconciler.store.backup.litestream import forget_position
from reconciler.store.journal import Journal
from reconciler.store.rebuild import beside
from reconciler.store.tables import taints

LOST = "the state was lost"


Ask = Callable[[Finds], bool]


def rebuild(fleet: Fleet, options: RebuildOptions, ask_person: Ask) -> Finds:
    """Make the state again, or take what some nodes hold into the one there is.

    `ask_person` is shown what that comes to, and says whether to go on. Raises ProblemError
    before anything was written.
    """
    insist_on_a_reason(options)
    if options.nodes:
        with writing(fleet, "state rebuild") as journal:
            draft = _draft(fleet, options, journal.world())
            _agree(ask_person, draft)
            journal.enter("rebuild", rebuild_store.write, draft.rebuilt)
        return draft.finds
    _insist_on_a_loss(fleet)
    fleet.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locking(fleet, "state rebuild"):
        draft = _draft(fleet, options, None)
        _agree(ask_person, draft)
        made = beside(fleet.database_file, state_id=draft.finds.state_id, now=fleet.now())
        with made as database:
            journal = Journal(database, fleet.actor, fleet.now)
            journal.enter("rebuild", rebuild_store.write, draft.rebuilt)
        forget_position(fleet.database_file)
    return draft.finds


def give_up(fleet: Fleet, nodes: Sequence[str], reason: str) -> None:
    """Whatever lies on these nodes is gone for good: nothing waits for them any more.

    Should one come back, nobody is placed on it before it has shown that it is clean.
    """
    with writing(fleet, "state rebuild") as journal:
        world, at = journal.world(), format_moment(fleet.now())
        unseen = {doubt.node for doubt in world.doubts if doubt.kind is DoubtKind.UNSEEN}
        if strangers := sorted(set(nodes) - unseen):
            raise refuse(
                "not_found",
                f"{', '.join(strangers)}: nobody is in doubt about what lies there",
                "those in doubt: gpuaas status",
            )
        ended = tuple(EndedDoubt(node=node, kind=DoubtKind.UNSEEN) for node in sorted(set(nodes)))
        why = f"given up: {reason}"
        kept = tuple(
            Doubt(node=one.node, kind=DoubtKind.UNPROVED, reason=why, since=at) for one in ended
        )
        journal.enter("judge_doubts", taints.judge, JudgedDoubts(ended=ended, kept=kept), why)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    finds: Finds
    rebuilt: Rebuilt


def _draft(fleet: Fleet, options: RebuildOptions, before: World | None) -> _Draft:
    """Look, judge what is seen, and work out what follows. Nothing is written."""
    with without_collector():
        asked = canvass(fleet, options, before)
        found, sign = read_found(asked.told), signer_if_any(fleet)
        records = volume_records.read_volumes(asked.volumes, asked.desired)
        state_id = before.state_id if before else state_id_of((*found, *records), sign, options)
        world = before or World(state_id=state_id, serial=0, recorded={})
        seen = {name: to_keep(one) for name, one in asked.seen.items()}
        world = replace(world, observations={**world.observations, **seen})
        authority = Authority(state_id=state_id, sign=sign, desired=asked.desired, world=world)
        judged = verify(found, authority, options.adopt)
        data = volume_records.verify_volumes(records, judged, authority, options.adopt)
        known = volume_records.of_known_volumes(records, authority)
        believed = (*known, *(one for one in data if one.taken))
        told = _Told(allocations=judged, data=data, records=believed)
        _insist_on_adoptions((*judged, *data), options)
        request = PlanRequest(
            desired=asked.desired,
            world=world,
            now=fleet.now(),
            templates=shipped.templates(),
            sign=sign or _sign_nothing,
            origins=partial(read_origins, fleet),
            actor=fleet.actor.name,
        )
        return _conclude(request, told, seen, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What is new to this state, judged; `records` are those of volumes that are believed."""

    allocations: tuple[FoundDescriptor, ...]
    data: tuple[FoundVolume, ...]
    records: tuple[FoundVolume, ...]


def _conclude(
    request: PlanRequest,
    told: _Told,
    seen: Mapping[str, Observation],
    options: RebuildOptions,
) -> _Draft:
    facts = {name: one.facts for name, one in seen.items() if one.facts and not one.problem}
    judged = told.allocations
    seeded = seed(request, [one for one in judged if one.taken], facts, told.records)
    regained = seeded.regained
    walled = prepared(request, facts)
    nodes = {ref: one for ref, one in walled.items() if ref not in request.world.recorded}
    world = replace(seeded.world, recorded={**seeded.world.recorded, **nodes})
    made = plan.plan(replace(request, world=world))
    lost, at = not options.nodes, format_moment(request.now)
    begun = (*seeded.refs.values(), *nodes, *regained.recorded)
    recorded = {ref: world.recorded[ref] for ref in begun}
    for change in settled(made):
        if lost or change.ref in recorded:
            before = recorded.get(change.ref)
            recorded[change.ref] = recorded_as(change, before, (), at)
    doubts = _judge(request, seeded.world, seen, at)
    names = sorted(seen)
    return _Draft(
        finds=Finds(
            state_id=request.world.state_id,
            found=found_rows(judged, seeded.refs, verdicts(seeded, made)),
            volumes=volume_rows(told.data, regained),
            nodes=node_rows(names, facts, doubts),
        ),
        rebuilt=Rebuilt(
            nodes=tuple(sorted(facts)),
            claims=seeded.claims,
            why={one.id: _provenance(one, options) for one in judged if one.taken},
            recorded=tuple(recorded[ref] for ref in sorted(recorded)),
            changes=usage(seeded, request),
            volumes=regained.volumes,
            attachments=regained.attachments,
            severed=regained.severed,
            gids=regained.gids,
            observations=tuple(seen[name] for name in names),
            doubts=doubts,
            least=floors(request, seeded) if lost else {},
            reason=options.reason or LOST,
        ),
    )


def _judge(
    request: PlanRequest, world: World, seen: Mapping[str, Observation], at: str
) -> JudgedDoubts:
    """Both doubts about every node that was asked, whether anybody had them or not."""
    since = {(one.node, one.kind): one.since for one in world.doubts}
    doubts = [
        Doubt(node=name, kind=kind, reason="never looked", since=since.get((name, kind), at))
        for name in sorted(seen)
        for kind in DoubtKind
    ]
    return judge_doubts(request.desired, world, doubts, seen)


def _insist_on_a_loss(fleet: Fleet) -> None:
    if fleet.database_file.exists():
        raise refuse(
            "state_exists",
            f"{fleet.database_file} is there: nothing is rebuilt over a state",
            "to take in what a node holds: gpuaas state rebuild --node NODE; "
            "a state that is damaged is moved away first, and kept",
        )


def _insist_on_adoptions(judged: Sequence[Sighting], options: RebuildOptions) -> None:
    by_place = {one.place: one for one in judged}
    for place in options.adopt:
        one = by_place.get(place)
        if one is None:
            raise refuse(
                "not_found",
                f"{place}: no descriptor or record of data that is not known already",
                "write NODE/ID as the list shows them",
            )
        if not one.taken:
            raise refuse(
                "descriptor_unverified",
                f"{place} cannot be adopted: {one.why}",
                "put right what that names, or clear it up on the host by hand",
            )


def _sign_nothing(text: str) -> str:
    return ""


def _agree(ask_person: Ask, draft: _Draft) -> None:
    if not ask_person(draft.finds):
        raise refuse("declined", "nothing was written", "run it again and answer yes")


def _provenance(one: FoundDescriptor, options: RebuildOptions) -> str:
    if one.adopted and one.why:
        return f"adopted from the descriptor on {one.node}, though {one.why}: {options.reason}"
    return f"rebuilt from the descriptor on {one.node}"
