"""`state rebuild`: a lost state made again from git and from what hosts say of themselves.

It only looks: no host is changed by it, and no tenant notices. What cannot be believed is told
and left out; what nobody can know is written down as a doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from reconciler import shipped
from reconciler.hosts.evidence import Question, ask
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.desired import Desired
from reconciler.model.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.rebuilt import Ended, Judged, Rebuilt
from reconciler.model.world import Doubt, DoubtKind, World
from reconciler.operations.finds import Finds, found_rows, node_rows
from reconciler.operations.observing import host_of, node_names, run_options, uids_of_tenants
from reconciler.operations.planning import signer
from reconciler.operations.reading import read_desired
from reconciler.operations.recording import recorded_as
from reconciler.operations.wiring import Fleet, without_collector
from reconciler.operations.writing import locking, writing
from reconciler.planner import planner
from reconciler.planner.doubting import judge_doubts
from reconciler.planner.planner import PlanRequest
from reconciler.planner.rebuilding import (
    floors,
    prepared,
    seed,
    settled,
    usage,
    verdicts,
)
from reconciler.planner.verifying import Authority, Found, read_found, signed_states, verify
from reconciler.specs.library import origins
from reconciler.store.journal import Journal
from reconciler.store.litestream import forget_position
from reconciler.store.rebuilding import beside

LOST = "the state was lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildOptions:
    """`nodes` are asked where there is a state, which then takes in what they hold.

    `adopt` (`NODE/ID`) and `without` (nodes) are consents: they go with a `reason`.
    """

    nodes: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    state_id: str = ""
    reason: str = ""


Ask = Callable[[Finds], bool]


def rebuild(fleet: Fleet, options: RebuildOptions, ask_person: Ask) -> Finds:
    """Make the state again, or take what some nodes hold into the one there is.

    `ask_person` is shown what that comes to, and says whether to go on. Raises ProblemError
    before anything was written.
    """
    _insist_on_a_reason(options)
    if options.nodes:
        with writing(fleet, "state rebuild") as journal:
            draft = _draft(fleet, options, journal.world())
            _agree(ask_person, draft)
            journal.rebuild(draft.rebuilt)
        return draft.finds
    _insist_on_a_loss(fleet)
    fleet.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locking(fleet, "state rebuild"):
        draft = _draft(fleet, options, None)
        _agree(ask_person, draft)
        made = beside(fleet.database_file, state_id=draft.finds.state_id, now=fleet.now())
        with made as database:
            Journal(database, fleet.actor, fleet.now).rebuild(draft.rebuilt)
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
        ended = tuple(Ended(node=node, kind=DoubtKind.UNSEEN) for node in sorted(set(nodes)))
        why = f"given up: {reason}"
        kept = tuple(
            Doubt(node=one.node, kind=DoubtKind.UNPROVED, reason=why, since=at) for one in ended
        )
        journal.judge_doubts(Judged(ended=ended, kept=kept), why)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    finds: Finds
    rebuilt: Rebuilt


def _draft(fleet: Fleet, options: RebuildOptions, before: World | None) -> _Draft:
    """Look, judge what is seen, and work out what follows. Nothing is written."""
    with without_collector():
        desired = _read_sound(fleet)
        names = _nodes_to_ask(desired, options)
        seen = _look(fleet, desired, before, names)
        told = {name: texts for name, one in seen.items() if (texts := _texts(one)) is not None}
        _insist_on_answers(seen, told, options)
        found, sign = read_found(told), _signer(fleet)
        state_id = before.state_id if before else _state_id(found, sign, options)
        world = before or World(state_id=state_id, serial=0, recorded={})
        observations = {**world.observations, **{n: _to_keep(one) for n, one in seen.items()}}
        world = replace(world, observations=observations)
        authority = Authority(state_id=state_id, sign=sign, desired=desired, world=world)
        judged = verify(found, authority, options.adopt)
        _insist_on_adoptions(judged, options)
        request = PlanRequest(
            desired=desired,
            world=world,
            now=fleet.now(),
            templates=shipped.templates(),
            sign=sign or _unsigned,
            origins=partial(origins, fleet.settings),
            actor=fleet.actor.name,
        )
        return _conclude(request, judged, seen, options)


def _conclude(
    request: PlanRequest,
    judged: Sequence[Found],
    seen: Mapping[str, Observation],
    options: RebuildOptions,
) -> _Draft:
    facts = {name: one.facts for name, one in seen.items() if one.facts and not one.problem}
    seeded = seed(request, [one for one in judged if one.taken], facts)
    nodes = prepared(request, facts)
    world = replace(seeded.world, recorded={**seeded.world.recorded, **nodes})
    made = planner.plan(replace(request, world=world))
    lost, at = not request.world.recorded, format_moment(request.now)
    recorded = {ref: world.recorded[ref] for ref in (*seeded.refs.values(), *nodes)}
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
            nodes=node_rows(names, facts, doubts),
        ),
        rebuilt=Rebuilt(
            nodes=tuple(sorted(facts)),
            claims=seeded.claims,
            why={one.id: _provenance(one, options) for one in judged if one.taken},
            recorded=tuple(recorded[ref] for ref in sorted(recorded)),
            changes=usage(seeded, request),
            observations=tuple(_to_keep(seen[name]) for name in names),
            doubts=doubts,
            least=floors(request, seeded) if lost else {},
            reason=options.reason or LOST,
        ),
    )


def _judge(request: PlanRequest, world: World, seen: Mapping[str, Observation], at: str) -> Judged:
    """Both doubts about every node that was asked, whether anybody had them or not."""
    since = {(one.node, one.kind): one.since for one in world.doubts}
    doubts = [
        Doubt(node=name, kind=kind, reason="never looked", since=since.get((name, kind), at))
        for name in sorted(seen)
        for kind in DoubtKind
    ]
    return judge_doubts(request.desired, world, doubts, seen)


def _insist_on_a_reason(options: RebuildOptions) -> None:
    asked = [
        word
        for word, given in (
            ("--adopt", options.adopt),
            ("--without", options.without),
            ("--state-id", options.state_id),
        )
        if given
    ]
    if asked and not options.reason.strip():
        raise refuse(
            "usage",
            f"{', '.join(asked)} stands on your word alone, and needs a reason that is kept",
            "say why: --reason TEXT",
        )


def _insist_on_a_loss(fleet: Fleet) -> None:
    if fleet.database_file.exists():
        raise refuse(
            "state_exists",
            f"{fleet.database_file} is there: nothing is rebuilt over a state",
            "to take in what a node holds: gpuaas state rebuild --node NODE; "
            "a state that is damaged is moved away first, and kept",
        )


def _read_sound(fleet: Fleet) -> Desired:
    """A rebuild believes git, so all of it has to be legible. Raises ProblemError."""
    desired = read_desired(fleet)
    if errors := tuple(problem for problem in desired.problems if problem.is_error):
        raise ProblemError(errors)
    return desired


def _nodes_to_ask(desired: Desired, options: RebuildOptions) -> tuple[str, ...]:
    names = node_names(desired)
    if strangers := sorted({*options.nodes, *options.without} - set(names)):
        raise refuse(
            "not_found",
            f"{', '.join(strangers)}: no spec describes such a node",
            "those that there are: gpuaas node list",
        )
    if not names:
        raise refuse(
            "nothing_to_rebuild", "no spec describes a node", "bring the specs of the fleet back"
        )
    return options.nodes or names


def _look(
    fleet: Fleet, desired: Desired, before: World | None, names: Sequence[str]
) -> Mapping[str, Observation]:
    world = before or World(state_id="", serial=0, recorded={})
    question = Question(descriptors=True, sweep=uids_of_tenants(desired))
    hosts = [host for name in names if (host := host_of(fleet, desired, world, name))]
    answers = ask([(host, question) for host in hosts], run_options(fleet), at=fleet.now())
    return {one.node: one for one in answers}


def _texts(one: Observation) -> Mapping[str, str] | None:
    return None if one.problem or one.facts is None else one.facts.descriptor_texts


def _to_keep(one: Observation) -> Observation:
    """Without what was asked for this once."""
    if one.facts is None:
        return one
    facts = replace(one.facts, descriptor_texts=None)
    return replace(one, facts=facts, digest=digest(encode(facts)))


def _insist_on_answers(
    seen: Mapping[str, Observation],
    told: Mapping[str, Mapping[str, str]],
    options: RebuildOptions,
) -> None:
    """What nobody has looked at may hold anything."""
    silent = {name: one for name, one in seen.items() if name not in told}
    if missing := sorted(silent.keys() - set(options.without)):
        words = (
            f"{n} ({silent[n].message or silent[n].problem or 'tells no allocations'})"
            for n in missing
        )
        raise refuse(
            "rebuild_incomplete",
            f"not every node tells what lies on it: {', '.join(words)}",
            "make them answer; or go on without: --without NODE --reason TEXT",
        )


def _signer(fleet: Fleet) -> Callable[[str], str] | None:
    """None where the key is lost: then nothing is believed by itself."""
    sign = signer(fleet)
    try:
        sign("")
    except ProblemError:
        return None
    return sign


def _unsigned(text: str) -> str:
    return ""


def _state_id(
    found: Sequence[Found],
    sign: Callable[[str], str] | None,
    options: RebuildOptions,
) -> str:
    """That of every descriptor which this machine has signed. Raises ProblemError."""
    states = signed_states(found, sign)
    if options.state_id or len(states) == 1:
        return options.state_id or next(iter(states))
    if not found and not options.without:
        raise refuse(
            "nothing_to_rebuild",
            "every node has answered, and none holds an allocation",
            "a new, empty state: gpuaas state init --new",
        )
    told = {one.descriptor.state_id: one.place for one in found if one.descriptor}
    listed = [f"{state} (signed, on {places[0]})" for state, places in states.items()]
    listed += [f"{state} (unsigned, on {told[state]})" for state in sorted(told.keys() - states)]
    raise refuse(
        "state_id_unclear",
        f"which state this was is not clear: {', '.join(listed) or 'no node says'}",
        "name it: --state-id ID --reason TEXT; what is of another one is not believed",
    )


def _insist_on_adoptions(judged: Sequence[Found], options: RebuildOptions) -> None:
    by_place = {one.place: one for one in judged}
    for place in options.adopt:
        one = by_place.get(place)
        if one is None:
            raise refuse(
                "not_found",
                f"{place}: no descriptor that is not known already",
                "write NODE/ID as the list shows them",
            )
        if not one.taken:
            raise refuse(
                "descriptor_unverified",
                f"{place} cannot be adopted: {one.why}",
                "put right what that names, or clear it up on the host by hand",
            )


def _agree(ask_person: Ask, draft: _Draft) -> None:
    if not ask_person(draft.finds):
        raise refuse("declined", "nothing was written", "run it again and answer yes")


def _provenance(one: Found, options: RebuildOptions) -> str:
    if one.adopted and one.why:
        return f"adopted from the descriptor on {one.node}, though {one.why}: {options.reason}"
    return f"rebuilt from the descriptor on {one.node}"
