"""References: names that people typed, compared with everything there is and was.

A name that names nothing is refused, with the nearest one: an answer about nothing would read like
an all-clear. What once was has a history, and is no error where that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.kinds.allocation.spec import ALLOCATIONS, AllocationSpec
from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.ref import Ref, is_name, parse_ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.volume import Volume
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.specs.read.suggest import did_you_mean, nearest
from reconciler.store import queries
from reconciler.store.file.database import Database
from reconciler.store.snapshot import read_world

MOST = 3
"""So many of the same name are offered; more are no help."""

SEE = "see what there is: gpuaas status"
NODE_LIST = "see what there is: gpuaas node list"


def insist_on_ref(fleet: Fleet, database: Database, world: World, ref: Ref) -> None:
    """Something that is recorded, claimed or wanted, or once was. Raises `not_found`."""
    wanted = _unless_known(fleet, database, world, ref)
    if ref not in wanted:
        raise unknown(ref, "neither in the specs nor in the state", (*_recorded(world), *wanted))


def insist_on_name(fleet: Fleet, database: Database, world: World, kind: str, name: str) -> None:
    """As for a ref, of something that is told by its name alone; no name is all of them."""
    ref = Ref(kind, "", name)
    wanted = _unless_known(fleet, database, world, ref) if name else frozenset((ref,))
    if ref not in wanted:
        names = {one.name for one in (*_recorded(world), *wanted) if one.kind == kind}
        raise no_such_name(kind, name, names)


def unknown_ref(fleet: Fleet, world: World, ref: Ref, where: str) -> ProblemError:
    """The refusal of a ref that is not `where` it was looked for, with the nearest that is."""
    return unknown(ref, where, (*_recorded(world), *_wanted(fleet)))


def in_neither(ref: Ref, desired: Desired, world: World) -> ProblemError:
    """The same, of what is neither in these specs nor recorded."""
    known = (*in_git(desired), *world.recorded)
    return unknown(ref, "neither in the specs nor in the state", known)


def unknown(ref: Ref, where: str, known: Iterable[Ref], see: str = SEE) -> ProblemError:
    """As `unknown_ref`, of those that are `known`; `see` is said where none of them is near."""
    known = frozenset(known)
    hint = "what is wanted of it: gpuaas plan" if ref in known else _meaning(ref, known) or see
    return refuse("not_found", f"{ref} is {where}", hint)


def node_of(desired: Desired, name: str) -> Resource[NodeSpec]:
    """A node as git has it. Raises ProblemError with what is wrong with it, or `not_found`."""
    ref = Ref("node", "", name)
    _insist_on_sound(desired, ref)
    node = NODES.at(desired, ref)
    if node is None:
        names = (ref.name for ref in NODES.among(in_git(desired)))
        raise no_such_name("node", name, names, NODE_LIST)
    return node


def allocation_of(desired: Desired, named: str) -> Resource[AllocationSpec]:
    """The same of an allocation, by its ref."""
    found, ref = None, parse_ref(named)
    if ref is not None:
        _insist_on_sound(desired, ref)
        found = ALLOCATIONS.at(desired, ref)
    if found is None:
        hint = did_you_mean(named, map(str, ALLOCATIONS.among(in_git(desired)))) or SEE
        raise refuse("not_found", f"no file describes an allocation {ref or named}", hint)
    return found


def volume_of(world: World, ref: Ref) -> Volume:
    """The data of a storage. Raises ProblemError `not_found`."""
    if ref not in world.volumes:
        known = (*world.volumes, *world.refs_of("storage"))
        raise unknown(ref, "no storage that anybody has", known)
    return world.volumes[ref]


def in_git(desired: Desired) -> frozenset[Ref]:
    """What documents describe, in order or not."""
    return frozenset((*desired.resources, *desired.frozen))


def no_such_name(kind: str, name: str, known: Iterable[str], see: str = SEE) -> ProblemError:
    """The refusal of a name by which nothing of that kind is called, with the nearest that is."""
    return refuse("not_found", f"no {kind} is called {name}", did_you_mean(name, known) or see)


def meant(fleet: Fleet, text: str) -> str:
    """What somebody probably meant by what is no ref, as a question; '' if nobody can say."""
    try:
        with fleet.reading() as database:
            known = {*_recorded(read_world(database)), *_wanted(fleet)}
    except ProblemError:
        known = set(_wanted(fleet))
    *_, name = text.rsplit("/", 1)
    names = {ref.name for ref in known}
    close = name if name in names else nearest(name, names)
    return _question(ref for ref in sorted(known) if close and ref.name == close)


def written(ref: Ref) -> str:
    """As people write it: an allocation by its project and name."""
    return f"{ref.project}/{ref.name}" if ref.kind == "allocation" else str(ref)


def _insist_on_sound(desired: Desired, ref: Ref) -> None:
    if ref not in desired.resources and ref in desired.frozen:
        errors = tuple(one for one in desired.problems if one.is_error)
        raise ProblemError(tuple(one for one in errors if one.ref == str(ref)) or errors)


def _unless_known(fleet: Fleet, database: Database, world: World, ref: Ref) -> frozenset[Ref]:
    """The ref alone if the state knows it or once did, else all that the specs want."""
    inside = ref.kind == "project" and is_name(ref.name)
    if _is_recorded(world, ref) or queries.was(database, str(ref)):
        return frozenset((ref,))
    if inside and queries.was_in(database, ref.name):
        return frozenset((ref,))
    return _wanted(fleet)


def _is_recorded(world: World, ref: Ref) -> bool:
    """A project is also known by what is in it."""
    known = _recorded(world)
    inside = ref.kind == "project" and any(one.project == ref.name for one in known)
    return ref in known or inside


def _recorded(world: World) -> frozenset[Ref]:
    """What the state has, by document, place, data or answer."""
    claimed = (one.ref for one in world.claims)
    seen = (Ref("node", "", name) for name in world.observations)
    return frozenset(
        (*world.recorded, *claimed, *world.volumes, *world.waiting, *world.lapsed, *seen)
    )


def _wanted(fleet: Fleet) -> frozenset[Ref]:
    """What the specs name; nothing where they cannot be read at all."""
    try:
        return fleet.wanted(fleet)
    except ProblemError:
        return frozenset()


def _meaning(ref: Ref, known: Iterable[Ref]) -> str:
    """The same name in another project, else the nearest of the kind."""
    alike = sorted(one for one in known if one.kind == ref.kind)
    same = [one for one in alike if one.name == ref.name]
    if same:
        return _question(same)
    by_text = {str(one): one for one in alike}
    close = nearest(str(ref), by_text)
    return _question((by_text[close],) if close and _is_near(ref, by_text[close]) else ())


def _is_near(ref: Ref, other: Ref) -> bool:
    """The kind and the project alone make long refs alike."""
    return bool(nearest(ref.name, (other.name,)))


def _question(refs: Iterable[Ref]) -> str:
    told = list(_told(refs))
    if not told or len(told) > MOST:
        return ""
    return f"did you mean {' or '.join(told)}?"


def _told(refs: Iterable[Ref]) -> Iterator[str]:
    return (f"`{written(ref)}`" for ref in refs)


def ref_of(text: str) -> Ref:
    ref = parse_ref(text)
    if ref is None:
        raise refuse(
            "not_found",
            f"{text!r} is no ref",
            "write kind/project/name, kind/name, or project/name for an allocation",
        )
    return ref
