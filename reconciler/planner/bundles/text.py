"""What a plan says about runtimes: which version follows which, and whether it is installed.

No code decides by any of these words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.bundle import BUNDLES, VersionState
from reconciler.kinds.contract import Context
from reconciler.model.host.facts.runtime_fact import RuntimeWord, read_runtime, runtime_key
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded
from reconciler.planner.bundles.versions import in_order, natural, newest

Versions = Mapping[str, list[str]]
"""By bundle, in order."""


def switching(
    resource: Resource, recorded: Recorded | None, node: str, context: Context
) -> Mapping[str, str]:
    """What changes about the runtimes of an allocation; empty where nothing does."""
    entries = ALLOCATIONS.applied(recorded).runtimes if recorded else ()
    before = _by_bundle((one.bundle, one.version) for one in entries)
    after = _by_bundle((one.bundle, one.version) for one in resource.spec.runtimes)
    told = list(_changes(before, after))
    if not told:
        return {}
    fresh = [(name, v) for name in after for v in after[name] if v not in before.get(name, ())]
    return {
        "runtimes": "; ".join([*told, *_when(fresh, node, context), *_old(fresh, context)]),
    }


def _changes(before: Versions, after: Versions) -> Iterator[str]:
    come = [name for name in after if name not in before]
    gone = [name for name in before if name not in after]
    if len(come) == len(gone) == 1:
        yield f"switches {_named(gone[0], before)} → {_named(come[0], after)}"
    else:
        yield from (f"adds {_named(name, after)}" for name in come)
        yield from (f"drops {_named(name, before)}" for name in gone)
    for name in sorted(after.keys() & before.keys()):
        was = [version for version in before[name] if version not in after[name]]
        now = [version for version in after[name] if version not in before[name]]
        if was and now:
            word = "rolls back" if natural(now[-1]) < natural(was[-1]) else "upgrades"
            yield f"{word} {name} {', '.join(was)} → {', '.join(now)}"
        elif now:
            yield f"adds {name} {', '.join(now)} beside {', '.join(before[name])}"
        elif was:
            yield f"drops {name} {', '.join(was)}, keeps {', '.join(after[name])}"


def _when(fresh: Iterable[tuple[str, str]], node: str, context: Context) -> Iterator[str]:
    """Whether anything has to be built first; an allocation does not wait for that."""
    seen = context.world.observations.get(node)
    shown = (seen.facts.platform if seen and seen.facts else None) or {}
    for name, version in fresh:
        fact = read_runtime(shown.get(runtime_key(name, version), ""))
        is_there = fact.word is RuntimeWord.STAGED
        when = "is there already, with no download" if is_there else "is built after all else"
        yield f"{name} {version} {when}"


def _old(fresh: Iterable[tuple[str, str]], context: Context) -> Iterator[str]:
    for name, version in fresh:
        bundle = BUNDLES.get(context.desired, name)
        states = {one.version: one.state for one in bundle.spec.versions} if bundle else {}
        if states.get(version) is VersionState.DEPRECATED:
            instead = newest(v for v, state in states.items() if state is VersionState.ACTIVE)
            yield f"{name} {version} is deprecated" + (f", for {instead}" if instead else "")


def _by_bundle(entries: Iterable[tuple[str, str]]) -> Versions:
    found: dict[str, list[str]] = defaultdict(list)
    for name, version in entries:
        found[name].append(version)
    return {name: in_order(versions) for name, versions in found.items()}


def _named(name: str, versions: Versions) -> str:
    return f"{name} {', '.join(versions[name])}"
