"""The scope of a suspension: a node, a user, a project, all, or what the loop does alone."""

from __future__ import annotations

from reconciler.model.problem import refuse
from reconciler.model.ref import parse_ref
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.planner.access.suspensions import LOOP, OF_LOOP
from reconciler.specs.read.suggest import did_you_mean

EVERYTHING = "all"
KINDS = ("node", "user", "project")
WHAT = "a node, user or project that was applied, or all; loop, or loop/REF, for what goes alone"


def known_scope(fleet: Fleet, world: World, scope: str) -> str:
    """The scope of something that is recorded; `all` is everything.

    The loop also leaves alone what only the specs name.
    """
    if scope == LOOP:
        return scope
    if found := of_loop(scope):
        ref = parse_ref(found.removeprefix(OF_LOOP))
        if ref in world.recorded or ref in fleet.wanted(fleet):
            return found
    ref = parse_ref(scope)
    if scope == EVERYTHING or (ref is not None and ref.kind in KINDS and ref in world.recorded):
        return scope
    hint = did_you_mean(scope, _scopes(fleet, world, scope)) or WHAT
    raise refuse("not_found", f"{scope} is nothing that can be suspended", hint)


def _scopes(fleet: Fleet, world: World, scope: str) -> list[str]:
    """The scopes that somebody can mean: with `loop`, those of the loop; any other shuts people
    out.
    """
    if not scope.startswith(LOOP):
        return [str(ref) for kind in KINDS for ref in world.refs_of(kind)]
    named = {*world.recorded, *fleet.wanted(fleet)}
    return [LOOP, *(f"{OF_LOOP}{ref}" for ref in named)]


def of_loop(scope: str) -> str:
    """The full scope, where it is of a part of the loop; else empty."""
    ref = parse_ref(scope.removeprefix(OF_LOOP)) if scope.startswith(OF_LOOP) else None
    return f"{OF_LOOP}{ref}" if ref is not None else ""


def is_of_loop(scope: str) -> bool:
    return scope == LOOP or scope.startswith(OF_LOOP)
