"""Garbage collection: bundle versions that nobody wants or names any more.

Of what the platform has put on a node the newest few stay, so that the way back needs no download;
older ones go, and so does what came to nothing. A host looks again who uses it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from reconciler.kinds.bundle import BUNDLES
from reconciler.kinds.contract import Context
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.runtime_fact import (
    RuntimeFact,
    RuntimeWord,
    default_key,
    read_runtime,
    runtime_key,
)
from reconciler.model.plan.items.bundle import DiscardItem
from reconciler.model.plan.plan import Order, Step, step_id
from reconciler.model.plan.verb import Verb
from reconciler.model.ref import Ref
from reconciler.planner.bundles.desired import Place, named
from reconciler.planner.bundles.versions import in_order
from reconciler.planner.core.policy import policy_of


def discards(
    context: Context, wants: Mapping[Place, set[str]], nodes: Mapping[str, NodeFacts | None]
) -> Iterator[Step]:
    """The versions to remove, one entry each, on nodes that report what they have."""
    names = named(context.world)
    ours: dict[Place, set[str]] = defaultdict(set)
    for one in context.world.installs:
        ours[one.node, one.bundle].add(one.version)
    for (node, name), versions in sorted(ours.items()):
        facts = nodes.get(node)
        if facts is None or facts.platform is None:
            continue
        needed = wants.get((node, name), set()) | names.get((node, name), set())
        default = facts.platform.get(default_key(name), "")
        if BUNDLES.get(context.desired, name) is not None:
            needed = needed | {default}
        shown = {v: read_runtime(facts.platform.get(runtime_key(name, v), "")) for v in versions}
        for version in _going(shown, needed, _kept(name, context)):
            bundle = Ref("bundle", "", name)
            yield _step(node, bundle, version, is_default=version == default)


def _kept(name: str, context: Context) -> int:
    """Nothing of a bundle that is no longer offered is kept for later."""
    if BUNDLES.get(context.desired, name) is None:
        return 0
    return policy_of(context.desired, context.world).bundles.keep_versions


BUILT = (RuntimeWord.STAGED, RuntimeWord.CHANGED)


def _going(shown: Mapping[str, RuntimeFact], needed: set[str], keep: int) -> list[str]:
    """The versions to remove; `shown` is what the node reports. What is being built stays."""
    there = in_order(v for v, fact in shown.items() if fact.word in BUILT)
    stays = set(there[-keep:] if keep else ())
    stays |= needed | {v for v, fact in shown.items() if fact.word is RuntimeWord.STAGING}
    return in_order(shown.keys() - stays)


def _step(node: str, bundle: Ref, version: str, *, is_default: bool) -> Step:
    """The step that removes a version; no allocation depends on a host's default."""
    gone = {default_key(bundle.name): None} if is_default else {}
    return Step(
        id=step_id(node, Verb.DISCARD, bundle, version),
        verb=Verb.DISCARD,
        node=node,
        ref=bundle,
        order=Order.ENRICH,
        item=DiscardItem(bundle=bundle.name, version=version, with_default=is_default),
        expected={runtime_key(bundle.name, version): None, **gone},
    )
