"""Collection: nodes are asked for all they hold, and their answers checked for completeness."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from reconciler.hosts.evidence import Question, ask
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.evidence import Observation
from reconciler.model.host.signed_record import STATE_ID
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import host_of, node_names, run_options, uids_of_tenants
from reconciler.operations.plan.plan import signer
from reconciler.operations.specs import read_desired
from reconciler.planner.rebuild.trust import Sighting, signed_states
from reconciler.specs.read.suggest import did_you_mean


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvass:
    """The answers of all nodes.

    `seen` is what each node answered, `told` its descriptors (node → id → text), `volumes` the
    records of its data in the same form.
    """

    desired: Desired
    seen: Mapping[str, Observation]
    told: Mapping[str, Mapping[str, str]]
    volumes: Mapping[str, Mapping[str, str]]


def canvass(fleet: Fleet, options: RebuildOptions, before: World | None) -> Canvass:
    """Raises ProblemError where git is not legible, or a node is silent that may not be."""
    desired = _read_sound(fleet)
    seen = _look(fleet, desired, before, _nodes_to_ask(desired, options))
    answers = {name: one.facts for name, one in seen.items() if one.facts and not one.problem}
    told = {n: t for n, one in answers.items() if (t := one.descriptor_texts) is not None}
    volumes = {n: t for n, one in answers.items() if (t := one.volume_texts) is not None}
    _insist_on_answers(seen, told.keys() & volumes.keys(), options)
    return Canvass(desired=desired, seen=seen, told=told, volumes=volumes)


def insist_on_a_reason(options: RebuildOptions) -> None:
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


def state_id_of(
    found: Sequence[Sighting],
    sign: Callable[[str], str] | None,
    options: RebuildOptions,
) -> str:
    """That of every descriptor which this machine has signed. Raises ProblemError."""
    states = signed_states(found, sign)
    if options.state_id and not STATE_ID.fullmatch(options.state_id):
        raise refuse("usage", f"{options.state_id!r} is no state id", "write it as the list does")
    if options.state_id or len(states) == 1:
        return options.state_id or next(iter(states))
    if not found and not options.without:
        raise refuse(
            "nothing_to_rebuild",
            "every node has answered, and none holds an allocation or data",
            "a new, empty state: gpuaas state init --new",
        )
    told = {one.signed.state_id: one.place for one in found if one.signed}
    listed = [f"{state} (signed, on {places[0]})" for state, places in states.items()]
    listed += [f"{state} (unsigned, on {told[state]})" for state in sorted(told.keys() - states)]
    raise refuse(
        "state_id_unclear",
        f"which state this was is not clear: {', '.join(listed) or 'no node says'}",
        "name it: --state-id ID --reason TEXT; what is of another one is not believed",
    )


def signer_if_any(fleet: Fleet) -> Callable[[str], str] | None:
    """None where the key is lost: then nothing is believed by itself."""
    sign = signer(fleet)
    try:
        sign("")
    except ProblemError as error:
        if error.problems[0].code != "descriptor_key_missing":
            raise
        return None
    return sign


def to_keep(one: Observation) -> Observation:
    """Without what was asked for this once."""
    if one.facts is None:
        return one
    facts = replace(one.facts, descriptor_texts=None, volume_texts=None)
    return replace(one, facts=facts, digest=digest(encode(facts)))


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
            did_you_mean(strangers[0], names) or "those that there are: gpuaas node list",
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


def _insist_on_answers(
    seen: Mapping[str, Observation],
    told: Collection[str],
    options: RebuildOptions,
) -> None:
    """What nobody has looked at may hold anything."""
    silent = {name: one for name, one in seen.items() if name not in told}
    if missing := sorted(silent.keys() - set(options.without)):
        words = (
            f"{n} ({silent[n].message or silent[n].problem or 'tells no allocations or data'})"
            for n in missing
        )
        raise refuse(
            "rebuild_incomplete",
            f"not every node tells what lies on it: {', '.join(words)}",
            "make them answer; or go on without: --without NODE --reason TEXT",
        )
