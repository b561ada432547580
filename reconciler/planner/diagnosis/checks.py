"""Checks: what in the store shows that something is stuck, overdue or stale.

Each finds one sort of it in a chart, in the order in which somebody should care; the rows of
`diagnosing` say what that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.node.spec import AdminState
from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_age
from reconciler.model.plan.lifecycle import Phase, RunState
from reconciler.model.ref import Ref
from reconciler.model.state.world import DoubtKind, Recorded, World
from reconciler.planner.access.login_checks import refusal_of_all, refusals
from reconciler.planner.diagnosis.context import Chart, Seen
from reconciler.planner.drift.notes import stray_keys

STALLED = timedelta(minutes=2)
"""Longer than this nobody is silent who works: a host is waited for by turns."""

SOON = timedelta(hours=24)


def revocations(chart: Chart) -> Iterator[Seen]:
    for one in sorted(chart.world.revocations, key=lambda one: (one.since, one.ref)):
        text = f"revocation of {', '.join(one.people)} on {one.node} pending"
        text += f" {chart.for_(one.since)} ({one.ref})"
        yield Seen(about=str(one.ref), text=text, since=one.since, command="gpuaas apply")


def keys_lying_about(chart: Chart) -> Iterator[Seen]:
    strays = Counter((one.ref, one.login) for one in stray_keys(chart.world))
    for (ref, login), number in sorted(strays.items()):
        what = "a key" if number == 1 else f"{number} keys"
        text = f"{ref}: {what} of people's own in the home of {login}, without effect"
        yield Seen(about=str(ref), text=text, command="gpuaas grant list")


def shut_out(chart: Chart) -> Iterator[Seen]:
    """Allocations whose people cannot log in, and hosts on which nobody could."""
    for name, seen in sorted(chart.world.observations.items()):
        if why := refusal_of_all(seen.facts):
            about = f"node/{name}"
            command = f"gpuaas node show {name}"
            yield Seen(about=about, text=f"{about} lets nobody in: {why}", command=command)
    for one in _allocations(chart.world):
        seen_of = chart.world.observations.get(one.node)
        for key, fact in refusals(one, seen_of.facts if seen_of else None):
            text = f"{one.ref} on {one.node}: {key} is {fact}"
            yield Seen(about=str(one.ref), text=text, command="gpuaas runbook login_refused")


def blocked_claims(chart: Chart) -> Iterator[Seen]:
    for claim in chart.world.claims:
        if claim.state is ClaimState.CLEANUP_BLOCKED:
            where = f"{claim.node}/{claim.slot}" if claim.slot else claim.node
            text = f"{where} {claim.problem}"
            command = f"gpuaas cleanup retry {where}"
            yield Seen(about=where, text=text, since=claim.state_since, command=command)


def waiting(chart: Chart) -> Iterator[Seen]:
    world = chart.world
    for ref, since in sorted(world.waiting.items(), key=lambda item: (item[1], item[0])):
        text = f"{ref} sku_unavailable, waiting {chart.for_(since)}"
        yield Seen(about=str(ref), text=text, since=since, command=f"gpuaas explain {ref}")


AFTER = {
    "host_identity_changed": "gpuaas node show {node}",
    "no_root_on_host": "gpuaas node bootstrap --print",
    "no_python_on_host": "gpuaas node bootstrap --print",
}
"""What to do about a host whose answer asking again would not better."""


def silent_hosts(chart: Chart) -> Iterator[Seen]:
    for name, seen in sorted(chart.world.observations.items()):
        if seen.problem:
            recorded = Ref("node", "", name) in chart.world.recorded
            again = "gpuaas plan --refresh" if recorded else "gpuaas node show {node}"
            yield Seen(
                about=f"node/{name}",
                text=f"node/{name} {seen.problem}: {seen.message}{_last(chart, seen)}",
                since=seen.unreachable_since,
                command=AFTER.get(seen.problem, again).format(node=name),
                code=seen.problem,
            )


def _last(chart: Chart, seen: Observation) -> str:
    answered = seen.last_answer
    return f"; last answered {chart.for_(answered)} ago" if answered else ""


def doubts(chart: Chart) -> Iterator[Seen]:
    for doubt in chart.world.doubts:
        unseen = doubt.kind is DoubtKind.UNSEEN
        yield Seen(
            about=f"node/{doubt.node}",
            text=f"node/{doubt.node} in doubt, {doubt.kind}: {doubt.reason}",
            since=doubt.since,
            command=f"gpuaas state rebuild --node {doubt.node}" if unseen else "gpuaas apply",
        )


def failing(chart: Chart) -> Iterator[Seen]:
    for offer in chart.offers:
        if offer.failed:
            since = chart.world.failures[offer.name].since
            yield Seen(
                about=f"node/{offer.name}",
                text=f"node/{offer.name} {offer.failed}; it is asked last",
                since=since,
                command=f"gpuaas node show {offer.name}",
            )


def stalled(chart: Chart) -> Iterator[Seen]:
    run, who = chart.run, chart.stopped
    if who is not None:
        text = f"pid {who.pid} of {who.actor} ({who.command}) holds the lock and is stopped"
        command = f"kill -CONT {who.pid}"
        yield Seen(about="lock", text=text, since=who.since, command=command)
    elif run is not None and run.living and run.state is RunState.RUNNING:
        still = chart.age(run.moved)
        if still is not None and still > STALLED:
            text = f"{run.id} has not moved for {chart.for_(run.moved)}"
            yield Seen(about=run.id, text=text, since=run.moved, command="gpuaas activity")


def unended(chart: Chart) -> Iterator[Seen]:
    run = chart.run
    if run is not None and not run.living and run.state is RunState.RUNNING:
        text = f"{run.id} ended without a word, last heard {chart.for_(run.moved)} ago"
        yield Seen(about=run.id, text=text, since=run.moved, command="gpuaas apply")


def failed(chart: Chart) -> Iterator[Seen]:
    run = chart.run
    if run is not None and run.state in (RunState.FAILED, RunState.INTERRUPTED):
        text = f"{run.id} {run.state}"
        yield Seen(about=run.id, text=text, since=run.moved, command="gpuaas activity")


def unknown_steps(chart: Chart) -> Iterator[Seen]:
    living = chart.run.id if chart.run is not None and chart.run.living else ""
    for step in chart.world.open_steps:
        if step.run != living:
            text = f"{step.verb} of {step.ref} on {step.node} in {step.run}: its end is unknown"
            yield Seen(
                about=str(step.ref), text=text, since=step.started, command="gpuaas plan --refresh"
            )


def unfinished(chart: Chart) -> Iterator[Seen]:
    """A claim whose allocation nobody has recorded, and one that is given up and not blocked."""
    if chart.run is not None and chart.run.living:
        return
    told = set()
    for claim in chart.world.claims:
        begun = claim.state is ClaimState.HELD and claim.ref not in chart.world.recorded
        if claim.ref not in told and (begun or claim.state is ClaimState.RELEASING):
            told.add(claim.ref)
            what = "its creation" if begun else "its release"
            text = f"{claim.ref} on {claim.node}: {what} was begun and not finished"
            yield Seen(about=str(claim.ref), text=text, since=claim.since, command="gpuaas apply")


def in_doubt(chart: Chart) -> Iterator[Seen]:
    for one in _allocations(chart.world):
        if one.phase is Phase.ACTIVE and not one.basis:
            text = f"{one.ref} on {one.node} is to be looked at anew"
            yield Seen(about=str(one.ref), text=text, command="gpuaas plan --refresh")


def stale(chart: Chart) -> Iterator[Seen]:
    for offer in chart.offers:
        age, seen = offer.evidence_age, offer.observation
        if seen is not None and not seen.problem and age is not None and age > offer.evidence_limit:
            limit = format_age(offer.evidence_limit.total_seconds())
            text = f"node/{offer.name} last said something {chart.for_(seen.at)} ago"
            yield Seen(
                about=f"node/{offer.name}",
                text=f"{text}, which counts for {limit}",
                since=seen.at,
                command="gpuaas plan --refresh",
            )


def never_seen(chart: Chart) -> Iterator[Seen]:
    for offer in chart.offers:
        if offer.observation is None:
            text = f"node/{offer.name} was never looked at"
            yield Seen(about=f"node/{offer.name}", text=text, command="gpuaas plan --refresh")


def leases_over(chart: Chart) -> Iterator[Seen]:
    for one in _leased(chart.world):
        if chart.is_over(one.expires_at):
            text = f"{one.ref} ended {chart.for_(one.expires_at)} ago ({_owner(one)})"
            yield Seen(about=str(one.ref), text=text, since=one.expires_at, command="gpuaas apply")


def leases_ending(chart: Chart) -> Iterator[Seen]:
    for one in _leased(chart.world):
        left = chart.age(one.expires_at)
        if left is not None and timedelta(0) < -left <= SOON:
            text = f"{one.ref} in {chart.until(one.expires_at)} ({_owner(one)})"
            yield Seen(about=str(one.ref), text=text, command=f"gpuaas extend {one.ref}")


def quarantines(chart: Chart) -> Iterator[Seen]:
    """Quarantined allocations that can still be taken back."""
    for one in _quarantined(chart.world):
        if not chart.is_over(one.undo_until):
            text = f"{one.ref} is to go; a git revert restores it until {one.undo_until}"
            yield Seen(about=str(one.ref), text=text, command="gpuaas plan")


def quarantines_over(chart: Chart) -> Iterator[Seen]:
    for one in _quarantined(chart.world):
        if chart.is_over(one.undo_until):
            text = f"{one.ref} is to be wiped since {one.undo_until}"
            yield Seen(about=str(one.ref), text=text, since=one.undo_until, command="gpuaas apply")


def suspensions_over(chart: Chart) -> Iterator[Seen]:
    for one in chart.world.suspensions:
        if one.until and chart.is_over(one.until):
            text = f"{one.scope} was suspended until {one.until} by {one.actor}"
            yield Seen(about=one.scope, text=text, since=one.until, command="gpuaas apply")


def evacuations_over(chart: Chart) -> Iterator[Seen]:
    held = {claim.node for claim in chart.world.claims}
    for offer in chart.offers:
        admin = offer.spec.admin
        due = admin.until if admin.state is AdminState.EVACUATING else None
        if due and offer.name in held and chart.is_over(due):
            name = offer.name
            text = f"node/{name} was to be empty by {due}"
            yield Seen(
                about=f"node/{name}", text=text, since=due, command=f"gpuaas node show {name}"
            )


def _allocations(world: World) -> Iterator[Recorded]:
    for ref in sorted(world.refs_of("allocation")):
        yield world.recorded[ref]


def _leased(world: World) -> Iterator[Recorded]:
    return (o for o in _allocations(world) if o.expires_at and o.phase is Phase.ACTIVE)


def _quarantined(world: World) -> Iterator[Recorded]:
    return (one for one in _allocations(world) if one.phase is Phase.QUARANTINED)


def _owner(one: Recorded) -> str:
    return ALLOCATIONS.applied(one).owner
