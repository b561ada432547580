"""Drift detection: where hosts differ from what was applied, and what could not be checked.

Not checked is not the same as in order, so it is reported apart. Hosts that do not answer are
listed as such and left out here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

from reconciler.kinds.node.spec import NODES
from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.kinds.registry import KINDS
from reconciler.model.host import layout
from reconciler.model.host.evidence import CheckResult, NodeFacts
from reconciler.model.host.facts.named_fact import UNKNOWN, is_unknown, word_of
from reconciler.model.host.facts.path_fact import is_folder, is_same_file_otherwise, owner_in
from reconciler.model.host.facts.runtime_fact import RuntimeWord, read_runtime, runtime_key, staged
from reconciler.model.host.facts.tenant_fact import ENTRANCE, PROBE, TenantWord, cards_in
from reconciler.model.plan.drift import Becomes, Drift, DriftClass
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.install import InstallState
from reconciler.model.state.world import Recorded, World
from reconciler.planner.access.login_checks import refusal_of_all, refusals
from reconciler.planner.bundles.desired import wanted
from reconciler.planner.core.facts import differing, told
from reconciler.planner.core.policy import Leniency, class_of_ours, leniency_of
from reconciler.planner.drift.notes import key_files_of_nobody, stray_keys
from reconciler.planner.nodes.prepare import may_be_touched
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.readiness import readiness
from reconciler.planner.placement.supply import unserved

LIVING = frozenset({Phase.ACTIVE, Phase.QUARANTINED})
"""What is under way is judged by its steps."""

OWN = (layout.HOME, layout.OWN_SCRATCH)
"""The folders that a tenant was given: whom else they let in is theirs to say."""

NOT_OF_A_MACHINE = frozenset({"reachable", "evidence", "boot", "walls", "doubt"})
"""Checks of readiness that say how fresh the evidence is, or that are told otherwise."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one drift is judged by.

    `cards` are the GPUs that the node shows, None if it cannot. `mends` says that an apply would
    make again what the platform made there.
    """

    ref: Ref
    node: str
    leniency: Leniency
    cards: frozenset[str] | None = None
    mends: bool = False

    def judge(
        self, key: str, kind: DriftClass, shown: str | None, text: str, *, ours: bool = False
    ) -> Drift:
        """What is `ours` we can make again. Whatever nobody can say is none of it."""
        accepted = self.leniency.accepts(self.ref, key, shown)
        if is_unknown(shown):
            becomes = Becomes.UNCHECKED
        elif accepted is not None:
            becomes = Becomes.ACCEPTED
        else:
            mended = ours and kind in self.leniency.repairs
            becomes = Becomes.REPAIRED if mended else Becomes.REPORTED
        return Drift(
            ref=self.ref,
            node=self.node,
            key=key,
            kind=kind,
            becomes=becomes,
            text=text,
            shown=shown,
            accepted=accepted,
        )


def drifts(desired: Desired, world: World, now: datetime) -> tuple[Drift, ...]:
    """All drift, by ref and key, with what an apply of this moment would do about each."""
    leniency = leniency_of(desired, world, now)
    found = (
        *_of_recorded(desired, world, leniency),
        *_of_runtimes(desired, world, leniency),
        *_of_strangers(world, leniency),
        *_of_people(world, leniency),
        *_of_machines(desired, world, now, leniency),
    )
    return tuple(sorted(found, key=attrgetter("ref", "node", "key", "text")))


def _of_recorded(desired: Desired, world: World, leniency: Leniency) -> Iterator[Drift]:
    seen = {
        node: (facts, {**(facts.paths or {}), **(facts.platform or {})}.items())
        for node, facts in _answers(world)
    }
    for ref, recorded in world.recorded.items() if seen else ():
        node = world.node_of(ref)
        if node not in seen or recorded.phase not in LIVING or recorded.forgotten:
            continue
        facts, shown = seen[node]
        yield from _of_entrances(_Look(ref, node, leniency), facts, recorded)
        # The whole at once, as nearly all are as they should be.
        if not recorded.facts.items() <= shown:
            mends = _is_mended(recorded, desired)
            yield from _differences(
                _Look(ref, node, leniency, _cards(facts), mends), facts, recorded
            )


def _of_entrances(look: _Look, facts: NodeFacts, recorded: Recorded) -> Iterator[Drift]:
    """What keeps people out, beyond what was made: keys are theirs, and come and go."""
    if look.ref.kind == "node" and (why := refusal_of_all(facts)):
        yield look.judge(PROBE, DriftClass.EVIDENCE, (facts.platform or {})[PROBE], why)
    for key, shown in refusals(recorded, facts):
        if key not in recorded.facts:
            text = f"{key} on {look.node} is {shown}"
            made = ENTRANCE[word_of(key)]
            yield replace(look.judge(key, DriftClass.EVIDENCE, shown, text), made=made)


def _differences(look: _Look, facts: NodeFacts, recorded: Recorded) -> Iterator[Drift]:
    for key, shown, made in differing(facts, recorded.facts):
        kind = _class_of(look, key, shown, made)
        text = f"{key} on {look.node}{_told(shown, made)}"
        yield replace(look.judge(key, kind, shown, text, ours=look.mends), made=made)


def _is_mended(recorded: Recorded, desired: Desired) -> bool:
    """What is in quarantine, or on a host that is not to be touched, is left as it is."""
    node = NODES.at(desired, recorded.ref)
    touched = recorded.ref.kind != "node" or (node is not None and may_be_touched(node))
    return touched and recorded.phase is Phase.ACTIVE


def _class_of(look: _Look, key: str, shown: str | None, made: str | None) -> DriftClass:
    """The class of a drift, by ordered rules of which the first one that applies counts."""
    rules = (
        (_is_their_own(key, shown, made), DriftClass.USER),
        (_is_short_of_cards(look, key, made), DriftClass.EVIDENCE),
        (word_of(key) == TenantWord.LOGIN, DriftClass.EVIDENCE),
    )
    ours = class_of_ours(look.ref, key)
    return next((kind for holds, kind in rules if holds), ours)


def _is_their_own(key: str, shown: str | None, made: str | None) -> bool:
    """A folder that is still its tenant's: its mode is theirs to choose."""
    if not is_folder(made or "") or not is_folder(shown or ""):
        return False
    same = owner_in(made or "") == owner_in(shown or "")
    return same and any(place.name_in(key) for place in OWN)


def _is_short_of_cards(look: _Look, key: str, made: str | None) -> bool:
    """No program brings back a GPU that the machine does not show."""
    wanted = cards_in(made or "") if word_of(key) == TenantWord.SLICE else frozenset()
    return look.cards is not None and not wanted <= look.cards


def _told(shown: str | None, made: str | None) -> str:
    if shown is None or made is None:
        return " is gone" if shown is None else " is there"
    if is_unknown(shown):
        return f": {shown}"
    if is_same_file_otherwise(shown, made):
        return " has other content"
    is_now, was = told(shown, made)
    return f" is {is_now}, not {was}"


def _of_runtimes(desired: Desired, world: World, leniency: Leniency) -> Iterator[Drift]:
    """Drift of bundle trees; those being built are left to their build."""
    made = [one for one in world.installs if one.state is InstallState.STAGED]
    answers = dict(_answers(world)) if made else {}
    wants = wanted(desired, world).versions if made else {}
    for one in made:
        facts = answers.get(one.node)
        if facts is not None:
            ours = one.version in wants.get((one.node, one.bundle), ())
            look = _Look(Ref("bundle", "", one.bundle), one.node, leniency, mends=ours)
            yield from _of_tree(
                look, facts, runtime_key(one.bundle, one.version), staged(one.digest)
            )


def _of_tree(look: _Look, facts: NodeFacts, key: str, made: str) -> Iterator[Drift]:
    for _, shown, _ in differing(facts, {key: made}):
        if read_runtime(shown or "").word is not RuntimeWord.STAGING:
            text = f"{key} on {look.node}{_told(shown, made)}"
            found = look.judge(key, DriftClass.PLATFORM, shown, text, ours=look.mends)
            yield replace(found, made=made)


def _of_strangers(world: World, leniency: Leniency) -> Iterator[Drift]:
    """Key files that nobody made: whoever is in one gets in as soon as there is such a login."""
    answers = dict(_answers(world))
    for node, path in key_files_of_nobody(world):
        look = _Look(Ref("node", "", node), node, leniency)
        text = f"{path} on {node} is there, and nobody's of ours"
        yield look.judge(path, DriftClass.ACCESS, (answers[node].paths or {})[path], text)


def _of_people(world: World, leniency: Leniency) -> Iterator[Drift]:
    """Keys of people's own that lie where they open nothing (rule 2)."""
    for one in stray_keys(world):
        look = _Look(one.ref, one.node, leniency)
        key, text = f"key {one.key}", f"key {one.key} opens nothing"
        yield look.judge(key, DriftClass.ACCESS, one.key, text)


def _of_machines(
    desired: Desired, world: World, now: datetime, leniency: Leniency
) -> Iterator[Drift]:
    """Drift of machines: what the evidence says against git, and against what is sold (INV-12,
    INV-17).
    """
    if not any(seen.facts for seen in world.observations.values()):
        return
    blocked = {
        node.ref: why for node in NODES.of(desired) if (why := KINDS["node"].unsupported(node))
    }
    offers = read_offers(desired, world, now, blocked)
    for ref, why in unserved(desired, world, offers):
        text = f"no sound host can serve it: {why}"
        yield _Look(ref, "", leniency).judge("capacity", DriftClass.EVIDENCE, why, text)
    for offer in offers:
        family = NODE_FAMILIES.get(desired, offer.spec.family)
        look = _Look(Ref("node", "", offer.name), offer.name, leniency)
        for check in readiness(offer, family.spec if family else None) if offer.facts else ():
            if check.name in NOT_OF_A_MACHINE or check.result is CheckResult.PASS:
                continue
            known = check.result is CheckResult.FAIL
            shown = check.value if known else f"{UNKNOWN}: {check.value}"
            text = f"{check.name} on {offer.name}: {check.value}"
            yield look.judge(check.name, DriftClass.EVIDENCE, shown, text)


def _answers(world: World) -> Iterator[tuple[str, NodeFacts]]:
    for node, one in world.observations.items():
        if one.facts is not None and not one.problem:
            yield node, one.facts


def _cards(facts: NodeFacts) -> frozenset[str] | None:
    return None if facts.gpus is None else frozenset(gpu.uuid for gpu in facts.gpus)
