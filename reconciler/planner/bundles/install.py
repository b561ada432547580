"""Installs: the work that brings bundle versions to the nodes that should have them.

Nobody waits for it: it comes after everything else of a plan.
"""

from __future__ import annotations

import posixpath
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import NamedTuple

from reconciler.kinds.allocation.runtime import place_of
from reconciler.kinds.bundle import BUNDLES, BundleSpec, Version, VersionState
from reconciler.kinds.contract import Context
from reconciler.kinds.node.spec import NODES, AdminState
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.runtime_fact import (
    LISTED,
    RuntimeFact,
    RuntimeWord,
    default_key,
    read_runtime,
    runtime_key,
)
from reconciler.model.plan.drift import Becomes, Drift
from reconciler.model.plan.items.bundle import BundleItem, StageItem
from reconciler.model.plan.plan import Action, Order, Step, step_id
from reconciler.model.plan.verb import STAGING, Verb
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.requirements import Requirements
from reconciler.model.spec.resource import Resource
from reconciler.model.state.install import Install, InstallState
from reconciler.planner.bundles.desired import wanted
from reconciler.planner.bundles.gc import discards
from reconciler.planner.bundles.versions import in_order, newest
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.facts import listed
from reconciler.planner.core.seat import Seat, Unseated

ACTIVATE, PROGRAM = "runtime/activate.sh.j2", "node/stage.py"
OUT_OF_REACH = frozenset({AdminState.UNAVAILABLE, AdminState.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The work for one bundle: what is built where, repaired and removed."""

    bundle: Ref
    steps: tuple[Step, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_repairs(self) -> bool:
        """Whether hosts only show otherwise what was built there."""
        return all(step.verb == Verb.REPAIR for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One version that one node should have: what the node shows of it, and what is recorded.

    `lock` are its requirements, None where nobody can read them; `becomes` what is done about it
    where it shows otherwise than it was made.
    """

    node: str
    bundle: Resource[BundleSpec]
    version: Version
    lock: Requirements | None
    fact: RuntimeFact = RuntimeFact(text="")
    link: str = ""
    is_default: bool = False
    installed: Install | None = None
    becomes: Becomes | None = None

    @property
    def is_there(self) -> bool:
        return self.fact.word is RuntimeWord.STAGED


class _Rule(NamedTuple):
    """`verb` is None where nothing is done; `word` is what the plan calls it."""

    verb: Verb | None
    word: str
    holds: Callable[[_Look], bool]


RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "unreadable": _Rule(None, "", lambda one: one.lock is None),
        # Asked for again: a host that is at it is left alone, and one that is not begins.
        "under_way": _Rule(Verb.STAGE, "awaits", lambda one: one.fact.word is RuntimeWord.STAGING),
        "left_alone": _Rule(
            None, "", lambda one: one.becomes in (Becomes.REPORTED, Becomes.ACCEPTED)
        ),
        "changed": _Rule(
            Verb.REPAIR,
            "repairs",
            lambda one: (
                one.fact.word is RuntimeWord.CHANGED
                or (one.is_there and one.becomes is Becomes.REPAIRED)
            ),
        ),
        "missing": _Rule(Verb.STAGE, "builds", lambda one: not one.is_there),
        "unrecorded": _Rule(
            Verb.STAGE,
            "records",
            lambda one: one.installed is None or one.installed.state is not InstallState.STAGED,
        ),
        "not_default": _Rule(
            Verb.STAGE,
            "default",
            lambda one: one.is_default and one.link != one.version.version,
        ),
    }
)
"""In this order, the first that holds says what is done; nothing where none does."""


def find_stagings(
    context: Context,
    seats: Mapping[Ref, Seat | Unseated],
    changed: Mapping[Ref, Difference],
    preparing: Collection[Ref],
    drifts: Iterable[Drift],
) -> Mapping[Ref, Staging]:
    """The work for each bundle; `preparing` are nodes that this plan prepares."""
    if not any(True for _ in BUNDLES.of(context.desired)) and not context.world.installs:
        return {}
    leaving = {ref for ref, one in changed.items() if one.action is Action.RELEASE}
    wants = wanted(context.desired, context.world, seats, leaving)
    nodes = dict(_nodes(context, preparing))
    found: dict[Ref, list[tuple[str, Step]]] = defaultdict(list)
    # First, as it makes room.
    for step in discards(context, wants.versions, nodes):
        found[step.ref].append(("removes", step))
    for one in _looks(wants.versions, nodes, context, drifts):
        rule = next((rule for rule in RULES.values() if rule.holds(one)), None)
        if rule is not None and rule.verb is not None:
            step = _step(rule.verb, one, context)
            found[step.ref].append((rule.word, step))
    return {
        ref: Staging(
            bundle=ref,
            steps=tuple(step for _, step in work),
            facts=_told(work, wants.left_out.get(ref.name, ())),
        )
        for ref, work in sorted(found.items())
    }


def is_slow(step: Step) -> bool:
    """Whether a step belongs to the lane that waits for all others, and for which nobody waits."""
    return step.verb in STAGING or step.verb == Verb.DISCARD


def _nodes(context: Context, preparing: Collection[Ref]) -> Iterator[tuple[str, NodeFacts | None]]:
    """Nodes that can be asked, with what they have shown; None of one that is only prepared now.

    Of a host that does not report its runtimes nobody knows what it lacks.
    """
    for node in NODES.of(context.desired):
        if node.spec.admin.state in OUT_OF_REACH:
            continue
        seen = context.world.observations.get(node.ref.name)
        facts = seen.facts if seen and not seen.problem else None
        recorded = context.world.recorded.get(node.ref)
        ready = node.spec.isolation is not Isolation.ACCOUNT or bool(recorded and recorded.facts)
        if facts is not None and ready and LISTED in (facts.platform or {}):
            yield node.ref.name, facts
        elif node.ref in preparing:
            yield node.ref.name, None


def _looks(
    wants: Mapping[tuple[str, str], Collection[str]],
    nodes: Mapping[str, NodeFacts | None],
    context: Context,
    drifts: Iterable[Drift],
) -> Iterator[_Look]:
    installs = {(one.node, one.bundle, one.version): one for one in context.world.installs}
    becomes = {(one.node, one.key): one.becomes for one in drifts if one.ref.kind == "bundle"}
    for (node, name), versions in sorted(wants.items()):
        bundle = BUNDLES.get(context.desired, name)
        if bundle is None or node not in nodes:
            continue
        facts = nodes[node]
        shown = (facts.platform if facts else None) or {}
        stated = {one.version: one for one in bundle.spec.versions if one.version in versions}
        default = newest(v for v, one in stated.items() if one.state is VersionState.ACTIVE)
        for version in in_order(stated):
            install = stated[version].install
            yield _Look(
                node=node,
                bundle=bundle,
                version=stated[version],
                lock=context.desired.locks.get(install.lock_digest) if install else None,
                fact=read_runtime(shown.get(runtime_key(name, version), "")),
                link=shown.get(default_key(name), ""),
                is_default=version == default,
                installed=installs.get((node, name, version)),
                becomes=becomes.get((node, runtime_key(name, version))),
            )


def _step(verb: Verb, one: _Look, context: Context) -> Step:
    version = one.version.version
    return Step(
        id=step_id(one.node, verb, one.bundle.ref, version),
        verb=verb,
        node=one.node,
        ref=one.bundle.ref,
        order=Order.ENRICH,
        item=_item(one, context),
    )


def _item(one: _Look, context: Context) -> StageItem:
    install, name, version = one.version.install, one.bundle.ref.name, one.version.version
    assert install is not None and one.lock is not None
    node = NODES.get(context.desired, one.node)
    # A host was given the program when it was prepared; a folder has none.
    is_folder = node is not None and node.spec.isolation is Isolation.DIRECTORY
    root = posixpath.join(context.desired.settings.folder, node.spec.root if node else "/")
    place = root.rstrip("/") + place_of(f"{name}@{version}")
    return StageItem(
        bundle=name,
        version=version,
        python=install.python,
        lock=one.lock.text,
        lock_digest=install.lock_digest,
        digest=one.installed.digest if one.installed else "",
        index=context.desired.settings.index.get(install.index or "", ""),
        imports=tuple(one.version.verify.imports),
        activate=context.render(
            ACTIVATE, {"bundle": name, "version": version, "place": shlex.quote(place)}
        ),
        program=context.render(PROGRAM, {}) if is_folder else "",
        current=version if one.is_default else "",
    )


def _told(work: Iterable[tuple[str, Step]], left_out: Collection[str]) -> Mapping[str, str]:
    """Each sort of work as a fact of the plan: versions, and where."""
    told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for word, step in work:
        if isinstance(step.item, BundleItem):
            told[word][step.item.version].append(step.node)
    facts = {
        word: "; ".join(f"{v} on {listed(sorted(on))}" for v, on in versions.items())
        for word, versions in told.items()
    }
    return {**facts, **({"leaves": listed(left_out, "; ")} if left_out else {})}
