"""`show`: one resource in full, its four states side by side."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.model.codec import encode
from reconciler.model.condition import Condition, Sync
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.problem import ProblemError
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded, World
from reconciler.operations import usage
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.ages import as_last_seen
from reconciler.operations.inventory.allocations import stage_in
from reconciler.operations.inventory.health import health_of
from reconciler.operations.inventory.stock import as_resource
from reconciler.operations.inventory.sync import recall_standing
from reconciler.operations.links.bundle_links import facts_of as runtime_facts
from reconciler.operations.links.storage_links import facts_of as storage_facts
from reconciler.operations.reconcile.source.tree import as_it_reads
from reconciler.operations.references import ref_of, unknown_ref
from reconciler.operations.specs import read_desired, read_origins
from reconciler.operations.usage import cards_of, used
from reconciler.operations.views import Shown
from reconciler.planner.changes.text import price
from reconciler.planner.core.facts import shown
from reconciler.store import queries
from reconciler.store.snapshot import read_world

LAST_EVENTS = 20


def show(fleet: Fleet, ref_text: str) -> Shown:
    """One resource in its four states. Raises ProblemError `not_found`."""
    ref = ref_of(ref_text)
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        recorded = world.recorded.get(ref)
        found = queries.last_events(database, str(ref), LAST_EVENTS)
        steps = queries.steps(database, str(ref))
        proofs = queries.proofs(database, str(ref))
        records = queries.usage(database, str(ref))
    resource = read_desired(fleet).resources.get(ref)
    if resource is None and recorded is None and not found:
        raise unknown_ref(fleet, world, ref, "neither in the specs nor in the state")
    file = resource.file if resource else recorded.file if recorded else ""
    gone = () if resource else (ref,)
    origin = read_origins(fleet, {ref: file}, gone)[ref] if file else None
    now, total = fleet.now(), used(records, fleet.now())
    cards = tuple(cards_of(recorded, world)) if recorded and recorded.id else ()
    return Shown(
        ref=str(ref),
        desired=resource.normal if resource else None,
        recorded=encode(recorded) if recorded else None,
        observed=_observed(world, ref, recorded),
        execution=steps,
        facts={
            **_facts(fleet, recorded, world),
            **usage.facts_of(total, _price(recorded, world, now), cards, now),
            **storage_facts(ref, world),
            **runtime_facts(ref, world),
        },
        claims=tuple(encode(claim) for claim in world.claims if claim.ref == ref),
        proofs=proofs,
        events=found,
        file=file,
        line=resource.line if resource else 0,
        commit=origin.commit if origin else "",
        author=origin.author if origin else "",
        used=total,
        cards=cards,
    )


def _price(recorded: Recorded | None, world: World, now: datetime) -> str:
    """What it costs from now on, by the SKU as it was applied last."""
    if recorded is None or not recorded.id or recorded.phase is not Phase.ACTIVE:
        return ""
    sku = world.recorded.get(Ref("sku", "", ALLOCATIONS.applied(recorded).sku))
    hourly = price(as_resource(sku) if sku else None, len(recorded.slots), now)
    return ", ".join(f"{amount:f} {currency} an hour" for currency, amount in hourly.items())


def _observed(world: World, ref: Ref, recorded: Recorded | None) -> Mapping[str, object] | None:
    """What hosts said of it: a node's whole answer, or what it shows of an allocation."""
    node = world.node_of(ref)
    seen = world.observations.get(node)
    if seen is None:
        return None
    if ref.kind == "node":
        observed: Mapping[str, object] = encode(seen)
        return observed
    wanted = recorded.facts if recorded else {}
    facts = {key: shown(seen.facts, key) or "absent" for key in wanted}
    return {"node": node, "at": seen.at, "problem": seen.problem, "facts": facts}


def _sync_told(fleet: Fleet, ref: Ref, last: Condition) -> str:
    """As `status` has it; where no plan of now is known, that it is what the `last` one said."""
    standing = None
    with suppress(ProblemError):
        standing = recall_standing(as_it_reads(fleet).fleet)
    if standing is None:
        return f"{last.told(fleet.now())}, as the last plan had it"
    row = next((row for row in standing.wanted if row.ref == str(ref)), None)
    now = Condition(word=row.sync, cause=row.sync_cause) if row else Condition(word=Sync.IN_SYNC)
    same = (now.word, now.cause) == (last.word, last.cause)
    return (last if same else now).told(fleet.now())


def _facts(fleet: Fleet, recorded: Recorded | None, world: World) -> Mapping[str, str]:
    """The lines people look for first."""
    if recorded is None or not recorded.id:
        return {}
    seen_now = health_of(recorded, stage_in(world, recorded.ref), world)
    sync, health = as_last_seen(fleet, recorded.ref, seen_now, world.claimed_since(recorded))
    seen = world.observations.get(recorded.node)
    source = seen.facts.source if seen and seen.facts else "unknown"
    return {
        "where": f"{recorded.node}/{','.join(recorded.slots)}",
        "login": recorded.login,
        "phase": recorded.phase,
        **({"sync": _sync_told(fleet, recorded.ref, sync)} if sync.word else {}),
        "health": health.told(fleet.now()),
        "evidence": f"{source}, {seen.at}" if seen else "never observed",
    }
