"""Links of bundles: which runtimes an allocation has and their state, seen from both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded, World
from reconciler.operations.bundle.bundle import (
    SUPPORT,
    BundleStanding,
    installs_of,
    named_by,
    standing,
    users_of,
)
from reconciler.operations.links.case import Link, WhyCase

ASKED = "not asked for yet"


def facts_of(ref: Ref, world: World) -> Mapping[str, str]:
    """The lines that `show` begins with; nothing where there is nothing to tell."""
    if ref.kind == "bundle":
        return _of_bundle(ref.name, world)
    one = world.recorded.get(ref) if ref.kind == "allocation" else None
    told = [f"{name} ({_words(found)})" for name, found in _standings(one, world)]
    if not told:
        return {}
    default, *others = told
    return {"runtimes": ", ".join((f"{default}, the default", *others)), "support": SUPPORT}


def runs(case: WhyCase) -> Iterator[Link]:
    """What an allocation runs."""
    one = case.recorded if case.ref.kind == "allocation" else None
    for name, found in _standings(one, case.world):
        command = f"gpuaas bundle show {name}"
        yield Link(about="runs", text=f"{name}: {_words(found)}", command=command)


def stands(case: WhyCase) -> Iterator[Link]:
    """Where a bundle stands, and who uses it."""
    told = _of_bundle(case.ref.name, case.world) if case.ref.kind == "bundle" else {}
    if told:
        text = "; ".join(f"{label} {words}" for label, words in told.items())
        yield Link(about="stands", text=text, command=f"gpuaas bundle show {case.ref.name}")


def _of_bundle(name: str, world: World) -> Mapping[str, str]:
    states = Counter(one.state.value for one in world.installs if one.bundle == name)
    users = users_of(world).items()
    using = {ref for (_, bundle, _), refs in users if bundle == name for ref in refs}
    told = {
        "nodes": ", ".join(f"{number} {state}" for state, number in sorted(states.items())),
        "used by": ", ".join(sorted(using)),
    }
    return {key: text for key, text in told.items() if text}


def _standings(one: Recorded | None, world: World) -> Iterator[tuple[str, BundleStanding]]:
    installs = installs_of(world) if one else {}
    for bundle, version in named_by(one) if one else ():
        place = (one.node if one else "", bundle, version)
        yield f"{bundle}@{version}", standing(place, world, installs.get(place), {})


def _words(one: BundleStanding) -> str:
    """As recorded, since when; and what the host shows where that is something else."""
    told = f"{one.state} since {one.since} on {one.node}" if one.state else ASKED
    why = f": {one.problem}" if one.problem else ""
    other = f", but it shows {one.shown or 'nothing'}" if one.agrees is False else ""
    return f"{told}{why}{other}"
