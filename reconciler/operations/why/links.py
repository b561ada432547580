"""Links: each gives one reason why a resource is as it is, and the place that says so.

A table by what a link is about; a rule that has nothing to say of a case is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.project import PROJECTS
from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import CheckResult
from reconciler.model.moment import format_age, parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action
from reconciler.model.ref import Ref
from reconciler.model.runbooks import RUNBOOKS
from reconciler.model.state.event import EventType
from reconciler.operations.links.bundle_links import runs, stands
from reconciler.operations.links.case import Link, SpecPlace, WhyCase
from reconciler.operations.links.storage_links import attached, had, stored


def _is(case: WhyCase) -> Iterator[Link]:
    one = case.recorded
    if one is None:
        left = case.last(EventType.FORGOTTEN)
        since = case.world.waiting.get(case.ref)
        text = f"gone since {left.at}" if left else "not applied yet"
        if since:
            text = f"waiting for room since {since}"
        yield Link(about="is", text=text, command=f"gpuaas timeline {case.ref}")
        return
    slots = ",".join(one.slots)
    on = f" on {one.node}{f'/{slots}' if slots else ''}" if one.node else ""
    login = f" as {one.login}" if one.login else ""
    health = f", {case.health}" if case.health else ""
    yield Link(about="is", text=f"{one.phase}{on}{login}{health}")


def _wanted(case: WhyCase) -> Iterator[Link]:
    if case.resource is not None:
        yield Link(about="wanted", text="by its document", place=case.place(case.ref))
    elif case.ref in case.desired.frozen:
        text = "its document has errors: it stays as it is"
        yield Link(about="wanted", text=text, command="gpuaas validate")
    elif case.recorded is not None:
        told = case.change.facts.get("why", "") if case.change else ""
        yield Link(about="wanted", text=told or "by no document any more")


def _applied(case: WhyCase) -> Iterator[Link]:
    kept = case.last(EventType.RECORDED, EventType.RENAMED, EventType.FORGOTTEN)
    if kept is not None:
        run = f" in {kept.run}" if kept.run else ""
        of = f", of commit {kept.commit[:7]}" if kept.commit else ", of specs without a commit"
        text = f"{kept.at} by {kept.actor}{run}{of}"
        yield Link(about="applied", text=text, command=f"gpuaas timeline {case.ref}")


def _placed(case: WhyCase) -> Iterator[Link]:
    """The rule stands with the claim, and is that of the moment when it was made."""
    claimed = case.last(EventType.CLAIMED)
    if claimed is not None and case.recorded is not None:
        text = f"{claimed.at}: {claimed.reason or 'no rule was recorded'}"
        yield Link(about="placed", text=text, command=f"gpuaas explain {case.ref}")


def _allowed(case: WhyCase) -> Iterator[Link]:
    project = PROJECTS.get(case.desired, case.ref.project) if case.ref.project else None
    allocation = ALLOCATIONS.own(case.resource)
    if project is None or allocation is None:
        return
    sku = allocation.spec.sku
    held = sum(
        1
        for claim in case.world.claims
        if claim.project == project.ref.name and claim.state is ClaimState.HELD
    )
    most = project.spec.quota.gpus
    text = f"project {project.ref.name} of tenant {project.spec.tenant} may have {sku}"
    text += f", and holds {held} of {most} GPUs"
    yield Link(about="allowed", text=text, place=case.place(project.ref))


def _approved(case: WhyCase) -> Iterator[Link]:
    """Of a node all of it, of an allocation the host and the slots it is on."""
    if case.node is None:
        return
    own = {"host", *(case.recorded.slots if case.recorded and case.ref.kind != "node" else ())}
    for one in case.approvals:
        names = [n for n in one.covers if case.ref.kind == "node" or n in own]
        if names:
            who = f"by {one.by} on {one.at}" if one.by else "by nobody"
            fell = ", as it has changed since" if one.fallen else ""
            text = f"{', '.join(names)} of {case.node.ref.name} {who}{fell}"
            place = case.place(case.node.ref)
            command = "" if one.by else f"gpuaas node show {case.node.ref.name}"
            yield Link(about="approved", text=text, place=place, command=command)


def _evidence(case: WhyCase) -> Iterator[Link]:
    seen = case.world.observations.get(case.node_name)
    if case.node is None:
        return
    if seen is None or seen.facts is None:
        why = f"{seen.problem}: {seen.message}" if seen else "never observed"
        yield Link(about="evidence", text=f"none: {why}", command="gpuaas plan --refresh")
        return
    facts, moment = seen.facts, parse_moment(seen.at)
    age = format_age((case.now - moment).total_seconds()) if moment else "unknown"
    drivers = sorted({gpu.driver for gpu in facts.gpus or () if gpu.driver})
    words = [facts.source, f"{age} old", f"probe {facts.probe_version}"]
    words += [f"boot {facts.boot_id[:8]}"] if facts.boot_id else []
    words += [f"driver {', '.join(drivers)}"] if drivers else []
    yield Link(
        about="evidence", text=", ".join(words), command=f"gpuaas evidence node/{case.node_name}"
    )


def _ready(case: WhyCase) -> Iterator[Link]:
    wrong = [check for check in case.checks if check.result is not CheckResult.PASS]
    if not case.checks:
        return
    if not wrong:
        text = f"{case.node_name} passes all {len(case.checks)} checks"
        yield Link(about="ready", text=text)
    for check in wrong:
        text = f"{case.node_name} {check.name} {check.result}: {check.value}"
        yield Link(about="ready", text=text, command=f"gpuaas node show {case.node_name}")


def _vouched(case: WhyCase) -> Iterator[Link]:
    """Places that were last freed by somebody's word and no proof: they stay marked by it."""
    slots = case.recorded.slots if case.recorded else ()
    for one in case.world.overrides:
        own = case.ref.kind == "node" or one.slot is None or one.slot in slots or not slots
        if one.node and one.node == case.node_name and own:
            where = f"{one.node}/{one.slot or '*'}"
            text = f'{where} was freed of {one.ref} by {one.actor} on {one.at}: "{one.reason}"'
            yield Link(about="vouched", text=text)


def _let_in(case: WhyCase) -> Iterator[Link]:
    for row in case.access:
        cause = case.ref if row.cause == row.allocation else _ref(row.cause)
        until = f" until {row.until}" if row.until else ""
        keys = f" ({', '.join(key.split()[0] for key in row.keys)})" if row.keys else ""
        reason = f' "{row.reason}"' if row.reason else ""
        state = "" if row.state == Phase.ACTIVE else f", {row.state}"
        by = f" by {cause}" if cause != case.ref else ""
        text = f"{row.user}{keys}{until}{by}{reason}{state}"
        yield Link(about="let in", text=text, place=case.place(cause) if by else SpecPlace())


def _ref(text: str) -> Ref:
    kind, _, rest = text.partition("/")
    project, _, name = rest.rpartition("/")
    return Ref(kind, project, name)


def _admin(case: WhyCase) -> Iterator[Link]:
    admin = case.node.spec.admin if case.node is not None else None
    if admin is not None and admin.state != "active":
        assert case.node is not None
        until = f" until {admin.until}" if admin.until else ""
        reason = f' "{admin.reason}"' if admin.reason else ""
        text = f"{case.node.ref.name} is {admin.state}{until}{reason}"
        yield Link(about="admin", text=text, place=case.place(case.node.ref))


def _suspended(case: WhyCase) -> Iterator[Link]:
    scopes = {str(case.ref), f"project/{case.ref.project}", f"node/{case.node_name}", "all"}
    scopes |= {"loop", *(f"loop/{scope}" for scope in scopes)}
    scopes |= {f"user/{row.user}" for row in case.access}
    for one in case.world.suspensions:
        if one.scope in scopes:
            until = f" until {one.until}" if one.until else ""
            text = f'{one.scope} by {one.actor} since {one.since}{until} "{one.reason}"'
            yield Link(
                about="suspended", text=text, command=f"gpuaas resume {one.scope} --reason …"
            )


def _ends(case: WhyCase) -> Iterator[Link]:
    one = case.recorded
    if one is None:
        return
    if one.phase is Phase.QUARANTINED:
        text = f"a git revert restores it until {one.undo_until}, then it is wiped"
        yield Link(about="ends", text=text, command="gpuaas runbook quarantine_open")
    elif one.expires_at:
        stated = ALLOCATIONS.spec(case.resource).expires_at if case.resource else None
        by = "as its document says" if stated else "as its project's or the policy's default says"
        yield Link(
            about="ends", text=f"{one.expires_at}, {by}", command=f"gpuaas extend {case.ref}"
        )


def _blocked(case: WhyCase) -> Iterator[Link]:
    for claim in case.world.claims:
        if claim.ref == case.ref and claim.problem:
            where = f"{claim.node}/{claim.slot or '*'}"
            yield Link(
                about="blocked",
                text=f"{where}: {claim.problem}",
                command="gpuaas runbook cleanup_blocked",
            )


def _next(case: WhyCase) -> Iterator[Link]:
    change = case.change
    if change is None:
        text = "nothing: it is as it is wanted" if case.resource else "nothing"
        yield Link(about="next", text=text)
        return
    if change.problem is not None:
        one = change.problem
        command = f"gpuaas runbook {one.code}" if one.code in RUNBOOKS else ""
        yield Link(about="next", text=f"not done: {one.code}: {one.message}", command=command)
        return
    words = [change.action.value, change.summary]
    words += [f"caused by {', '.join(map(str, change.caused_by))}"] if change.caused_by else []
    words += [f"because it is {change.cause}"] if change.cause else []
    frozen = change.action is Action.FROZEN
    command = "gpuaas validate" if frozen else "gpuaas plan"
    yield Link(about="next", text=" · ".join(filter(None, words)), command=command)


LINKS: tuple[tuple[str, Callable[[WhyCase], Iterator[Link]]], ...] = (
    ("is", _is),
    ("wanted", _wanted),
    ("applied", _applied),
    ("placed", _placed),
    ("allowed", _allowed),
    ("approved", _approved),
    ("evidence", _evidence),
    ("ready", _ready),
    ("vouched", _vouched),
    ("admin", _admin),
    ("suspended", _suspended),
    ("let in", _let_in),
    ("has", had),
    ("data", stored),
    ("attached", attached),
    ("runs", runs),
    ("stands", stands),
    ("ends", _ends),
    ("blocked", _blocked),
    ("next", _next),
)
"""In the order in which one explains the other."""


def links_of(case: WhyCase) -> Iterator[Link]:
    for _, tell in LINKS:
        yield from tell(case)
