"""Runtimes: bundle versions that run on the nodes of a SKU, and how one is told in a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.kinds.bundle import BUNDLES, VersionState
from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.sku import SKUS
from reconciler.model.host.capacity import RuntimeNeed
from reconciler.operations.new.contract import AnswerChoice, Answers, NoAnswer, Scene
from reconciler.planner.bundles.versions import natural
from reconciler.planner.placement.filters import RUNTIME_RULES
from reconciler.planner.placement.supply import need_of
from reconciler.specs.read.suggest import did_you_mean

TOLD = 2
"""So many nodes are named of those that do not run a version."""


def runtimes(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """The newest version of each bundle first, of those that run on some node of the SKU."""
    return tuple(
        AnswerChoice(word=f"{need.bundle}@{need.version}", note=note)
        for need, note in versions(scene)
        if not unfit(need, scene, answers)
    )


def versions(scene: Scene) -> Iterator[tuple[RuntimeNeed, str]]:
    lenient = policy_in(scene.desired).bundles.allow_unknown_compatibility
    for bundle in BUNDLES.of(scene.desired):
        needs = bundle.spec.needs(bundle.ref.name, may_be_unknown=lenient)
        active = {
            one.version for one in bundle.spec.versions if one.state is not VersionState.WITHDRAWN
        }
        for version in sorted(active, key=natural, reverse=True):
            yield needs[version], bundle.spec.display_name


def unfit(need: RuntimeNeed, scene: Scene, answers: Answers) -> str:
    """Why no node of the SKU runs it; empty if one does, or if no node is known."""
    sku = SKUS.get(scene.desired, answers.one("sku"))
    if sku is None or scene.stock is None:
        return ""
    wanted = replace(need_of(sku), runtimes=(need,))
    near = [one for one in scene.stock.offers if one.spec.family in sku.spec.families]
    reasons = []
    for offer in near:
        told = ((code, rule(offer, wanted)) for code, rule in RUNTIME_RULES.items())
        reason = next((f"{code}: {why}" for code, why in told if why), "")
        if not reason:
            return ""
        reasons.append(f"{offer.name} {reason}")
    return "; ".join(reasons[:TOLD])


def runtime(text: str, scene: Scene, answers: Answers) -> str:
    """`BUNDLE@VERSION`, or `BUNDLE` for the newest version that fits."""
    name, _, version = text.partition("@")
    known = [need for need, _ in versions(scene) if need.bundle == name]
    if not known:
        names = {need.bundle for need, _ in versions(scene)}
        hint = did_you_mean(name, names) or "there is none: gpuaas bundle add"
        raise NoAnswer(f"there is no bundle {name!r}; {hint}")
    if not version:
        fitting = [need for need in known if not unfit(need, scene, answers)]
        return f"{name}@{(fitting or known)[0].version}"
    if version not in {need.version for need in known}:
        words = ", ".join(need.version for need in known)
        raise NoAnswer(f"bundle {name} has no version {version!r} to choose; it has {words}")
    return f"{name}@{version}"


def runtime_entry(text: str) -> Mapping[str, object]:
    bundle, _, version = text.partition("@")
    return {"bundle": bundle, "version": version}
