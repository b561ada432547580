"""What a plan says about a change: one fact a line, and what is hit, kept, lost and paid.

Everything observed comes from stored observations; what was not observed is `unknown`, never 0.
No code decides by any of these words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType

from reconciler.kinds.access.keys import in_force, key_lines
from reconciler.kinds.access.leave import OPEN_ENDED
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.lease import terms_of
from reconciler.kinds.node.spec import NODES
from reconciler.kinds.sku import SkuSpec, price_in_force
from reconciler.model.host import layout
from reconciler.model.host.capacity import Claim, Need, Placement, Unavailable
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.moment import format_age, format_moment, parse_moment
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.planner.placement.reasons import may_be_asked
from reconciler.planner.proof.overrides import vouched_for
from reconciler.planner.storage.text import class_summary, kept, lasting, storage_summary

UNKNOWN = "unknown"


def price(sku: Resource[SkuSpec] | None, gpus: int, now: datetime) -> dict[str, Decimal]:
    """What so many GPUs of a SKU cost an hour, by currency; nothing where no price is in force."""
    found = price_in_force(sku.spec, now) if sku else None
    return {found.currency: Decimal(found.per_gpu_hour) * gpus} if found else {}


def price_delta(after: Mapping[str, Decimal], before: Mapping[str, Decimal]) -> Mapping[str, str]:
    """The change of the hourly price as exact text; without a change there is no entry."""
    deltas = {
        currency: after.get(currency, Decimal(0)) - before.get(currency, Decimal(0))
        for currency in sorted(after.keys() | before.keys())
    }
    return {currency: format(delta, "f") for currency, delta in deltas.items() if delta}


def size_of(slots: Iterable[str]) -> str:
    return _some(len(tuple(slots)), "GPU")


def create_facts(
    resource: Resource, login: str, placement: Placement, desired: Desired, now: datetime
) -> Mapping[str, str]:
    node = NODES.get(desired, placement.node)
    if node is not None and node.spec.is_local:
        where = f"{node.spec.root.rstrip('/')}{layout.HOME.of(login)}"
    else:
        where = f"{login}@{node.spec.public_address if node else placement.node}"
    return {
        "login": where,
        "access": _access(resource, desired, now),
        "note": lasting(resource),
    }


def vouched_facts(placement: Placement, world: World) -> Mapping[str, str]:
    """Whoever gets a slot that was freed without a proof is told so (REL-04)."""
    words = vouched_for(world.overrides, placement.node, placement.slots)
    return {"unproved": words} if words else {}


def until(resource: Resource, end: str, desired: Desired, now: datetime) -> str:
    """When its lease ends, and who decided that."""
    if not end:
        return "open end"
    if resource.spec.expires_at is not None:
        return end
    terms = terms_of(resource.ref.project, desired)
    return f"{end} (default of the {terms.source}, {_hours(terms.default)})"


def _hours(hours: int) -> str:
    return f"{hours // 24} days" if hours % 24 == 0 and hours > 24 else f"{hours} h"


def prepare_facts(reason: str, node: str, world: World) -> Mapping[str, str]:
    """What preparing a host means for people on it, and how it is made safe."""
    living = len({claim.allocation_id for claim in world.claims_on(node)})
    return {
        "prepare": f"{reason}: sshd, PAM, slices, D-Bus, limits; put back unless a new login works",
        "hits": f"{_some(living, 'allocation')} there: sessions and work go on"
        if living
        else "no allocation; logins of the host other than root and ours lose its GPUs",
    }


def change_facts(resource: Resource, desired: Desired, now: datetime) -> Mapping[str, str]:
    return {"access": _access(resource, desired, now)}


def release_facts(
    recorded: Recorded, grants: Iterable[Resource], world: World, now: datetime
) -> Mapping[str, str]:
    """Whom a release affects, what is kept and what is lost."""
    guests = {grant.spec.user for grant in grants if in_force(grant, now)}
    people = sorted({*ALLOCATIONS.applied(recorded).access, *guests})
    seen = world.observations.get(recorded.node)
    facts = seen.facts if seen else None
    home, scratch = layout.HOME.of(recorded.login), layout.OWN_SCRATCH.of(recorded.id)
    return {
        "ends": f"access of {', '.join(people)}"
        f" · sessions {_count(_sessions(facts, recorded.login))}"
        f" · GPU processes {_count(_processes(facts, recorded, world))}",
        "kept": kept(recorded, world),
        "lost": f"home {_bytes(facts, home)}, scratch {_bytes(facts, scratch)}",
        "order": "revoke > wipe > proof > free",
    }


def unavailable_facts(need: Need, why: Unavailable) -> Mapping[str, str]:
    """What a request asks for, and the nearest match in place and in time."""
    what = f"{_wanted(need.slots)}, SKU {need.sku}"
    facts = {
        "wants": f"{what} ({', '.join(need.isolation)}, tenant {need.tenant})",
        "nearest": why.nearest,
        "fits": "" if may_be_asked(why.refusals) else why.outlook,
    }
    return {label: text for label, text in facts.items() if text}


def waiting(position: tuple[int, int], since: str, gives_up: datetime | None, now: datetime) -> str:
    """How long a request has waited, its position, and when it gives up."""
    first_seen = parse_moment(since) if since else None
    waited = format_age((now - first_seen).total_seconds()) if first_seen else "from now on"
    until = f", gives up {format_moment(gives_up)}" if gives_up else ""
    return f"waiting {waited}, position {position[0]} of {position[1]}{until}"


def held_since(claims: Iterable[Claim], now: datetime) -> str:
    """How long somebody has held it already."""
    moments = [moment for claim in claims if (moment := parse_moment(claim.since))]
    return f"held {format_age((now - min(moments)).total_seconds())}" if moments else ""


def summary_of(resource: Resource, now: datetime) -> str:
    """One fact about a resource without work on hosts."""
    tell = SUMMARIES.get(resource.ref.kind)
    return tell(resource, now) if tell else ""


def _grant(resource: Resource, now: datetime) -> str:
    spec = resource.spec
    may = "may log in" if in_force(resource, now) else "may no longer log in, its time is over,"
    end = "without end" if spec.expires_at == OPEN_ENDED else f"until {spec.expires_at}"
    keys = f" (keys: {', '.join(spec.keys)})" if spec.keys else ""
    return f"{spec.user} {may} to {spec.allocation} {end}{keys}"


def _user(resource: Resource, now: datetime) -> str:
    keys = ", ".join(key.id for key in resource.spec.keys) or "none"
    return f"{resource.spec.state}, keys: {keys}"


def _project(resource: Resource, now: datetime) -> str:
    spec = resource.spec
    most = f"{_some(spec.quota.gpus, 'GPU')} at most"
    return f"tenant {spec.tenant}, {_some(len(spec.members), 'member')}, {most}"


def _node(resource: Resource, now: datetime) -> str:
    spec = resource.spec
    return f"{_some(len(spec.slots), 'slot')} of {spec.family}, isolation {spec.isolation}"


def _sku(resource: Resource, now: datetime) -> str:
    spec = resource.spec
    return f"{_wanted(spec.slots)} of {', '.join(spec.families)}"


def _family(resource: Resource, now: datetime) -> str:
    gpu = resource.spec.gpu
    return f"{gpu.model}, {gpu.memory_mib} MiB"


def _policy(resource: Resource, now: datetime) -> str:
    return f"tenants {', '.join(resource.spec.tenants)}"


SUMMARIES: Mapping[str, Callable[[Resource, datetime], str]] = MappingProxyType(
    {
        "grant": _grant,
        "user": _user,
        "project": _project,
        "node": _node,
        "node_family": _family,
        "policy": _policy,
        "sku": _sku,
        "storage": storage_summary,
        "storage_class": class_summary,
    }
)


def _wanted(slots: int | None) -> str:
    """A size as a SKU states it; no size is a whole node."""
    if not slots:
        return "a whole node"
    return f"{_some(slots, 'slot')}{' on one node' if slots > 1 else ''}"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _access(resource: Resource, desired: Desired, now: datetime) -> str:
    keys: dict[str, list[str]] = {user: [] for user in resource.spec.access}
    for line in key_lines(resource, desired, now):
        keys.setdefault(line.user, []).append(line.key_id)
    return ", ".join(
        f"{user} ({', '.join(ids) or 'no key in force'})" for user, ids in sorted(keys.items())
    )


def _sessions(facts: NodeFacts | None, login: str) -> int | None:
    if facts is None or facts.sessions is None:
        return None
    return facts.sessions.get(login, 0)


def _processes(facts: NodeFacts | None, recorded: Recorded, world: World) -> int | None:
    node = NODES.last(world, recorded.node)
    if facts is None or facts.gpus is None or node is None:
        return None
    uuids = {slot.gpu.uuid for slot in node.slots if slot.name in recorded.slots}
    seen = [gpu.processes for gpu in facts.gpus if gpu.uuid in uuids]
    known = [processes for processes in seen if processes is not None]
    if len(known) < len(recorded.slots):
        return None
    return sum(len(processes) for processes in known)


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def _bytes(facts: NodeFacts | None, path: str) -> str:
    size = facts.sizes.get(path) if facts and facts.sizes is not None else None
    if size is None:
        return UNKNOWN
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
