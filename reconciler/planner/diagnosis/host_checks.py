"""Checks of hosts that answer: what they report, or cannot report, that limits somebody."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.node.spec import AdminState
from reconciler.model.host import layout
from reconciler.model.host.capacity import SlotState
from reconciler.model.host.evidence import CheckResult, NodeFacts
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.state.install import InstallState
from reconciler.model.state.world import Recorded
from reconciler.planner.core.facts import differing
from reconciler.planner.core.policy import is_door
from reconciler.planner.diagnosis.context import Chart, Seen
from reconciler.planner.drift.notes import key_files_of_nobody
from reconciler.planner.placement.filters import hindrance
from reconciler.planner.placement.inventory import Offer
from reconciler.planner.placement.readiness import readiness

TOLD_OTHERWISE = frozenset({"reachable", "evidence", "boot", "doubt", "os"})
"""Checks of readiness that have signs of their own, or by which nobody is limited."""

OUT_OF_USE = (AdminState.UNAVAILABLE, AdminState.LOST)

THEIR_OWN = (layout.HOME.before, layout.OWN_SCRATCH.before)
"""Whom else a tenant lets into such a folder is theirs to say."""


def unfit(chart: Chart) -> Iterator[Seen]:
    """Checks that fail or have no answer, each with the words of the host."""
    for offer in chart.offers:
        seen = offer.observation
        if seen is None or seen.problem or not _may_be_limited(offer):
            continue
        for check in readiness(offer, None):
            if check.result is CheckResult.PASS or check.name in TOLD_OTHERWISE:
                continue
            word = "" if check.result is CheckResult.FAIL else "unknown, "
            text = f"node/{offer.name} {check.name}: {word}{check.value}"
            yield Seen(
                about=f"node/{offer.name}",
                text=f"{text}; asked {chart.for_(seen.at)} ago",
                command=f"gpuaas node show {offer.name}",
            )


def strange_doors(chart: Chart) -> Iterator[Seen]:
    """Files that decide who may log in and differ: a stranger's key, or an account."""
    for node, path in key_files_of_nobody(chart.world):
        text = f"node/{node}: {path} is there, and nobody's of ours"
        yield Seen(about=f"node/{node}", text=text, command=f"gpuaas drift node/{node}")
    for one, differences in _differing(chart):
        for key, shown in differences:
            if is_door(one.ref, key):
                what = "keys" if key.startswith(layout.KEY_FILE.before) else "account"
                how = "gone" if shown is None else "not as it was made"
                text = f"{one.ref}: its {what} on {one.node}: {key} is {how}"
                yield Seen(about=str(one.ref), text=text, command=f"gpuaas drift {one.ref}")


def degraded(chart: Chart) -> Iterator[Seen]:
    """Allocations whose host shows something otherwise than it was made."""
    for one, differences in _differing(chart):
        told = [
            f"{key} is {'gone' if shown is None else shown}"
            for key, shown in differences
            if not is_door(one.ref, key) and (shown is None or not key.startswith(THEIR_OWN))
        ]
        if told:
            more = f", and {len(told) - 1} more" if len(told) > 1 else ""
            text = f"{one.ref} on {one.node}: {told[0]}{more}"
            yield Seen(about=str(one.ref), text=text, command=f"gpuaas drift {one.ref}")


def failed_builds(chart: Chart) -> Iterator[Seen]:
    """Bundle versions that a host could not build, whoever waits for them."""
    for one in chart.world.installs:
        if one.state is InstallState.FAILED:
            text = f"bundle/{one.bundle}@{one.version} on {one.node}: {one.problem or 'failed'}"
            command = f"gpuaas bundle show {one.bundle}"
            yield Seen(about=f"bundle/{one.bundle}", text=text, since=one.since, command=command)


def _may_be_limited(offer: Offer) -> bool:
    """Most hosts are in order, which is quickly seen."""
    facts = offer.facts
    if facts is None or offer.spec.admin.state in OUT_OF_USE:
        return False
    unanswered = facts.gpus is None or facts.card_errors is None or bool(facts.problems)
    free = all(hindrance(offer, slot)[0] is SlotState.FREE for slot in offer.slots)
    return unanswered or not free


def _differing(chart: Chart) -> Iterator[tuple[Recorded, list[tuple[str, str | None]]]]:
    """What is known to differ, of allocations that are there."""
    answers = {
        name: (seen.facts, _shown(seen.facts))
        for name, seen in chart.world.observations.items()
        if seen.facts is not None and not seen.problem
    }
    recorded = sorted(ALLOCATIONS.recorded(chart.world), key=lambda one: one.ref)
    for one in recorded if answers else ():
        is_there = one.phase is Phase.ACTIVE and not one.forgotten
        if not is_there or one.node not in answers:
            continue
        facts, shown = answers[one.node]
        if not one.facts.items() <= shown.items():
            known = [
                (key, is_now)
                for key, is_now, _ in differing(facts, one.facts)
                if not is_unknown(is_now)
            ]
            if known:
                yield one, known


def _shown(facts: NodeFacts) -> dict[str, str]:
    return {**(facts.paths or {}), **(facts.platform or {})}
