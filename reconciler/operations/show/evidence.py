"""`evidence`: what a host has shown of a resource, beside what it must show, and proofs.

An allocation is judged by its node, by its own facts and by the proofs over its slots; a node by
itself. All of it is measured or recorded; nothing here is anybody's word, but for approvals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.model.host.evidence import Check, CheckResult, Observation
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.state.event import Event
from reconciler.model.state.world import Recorded
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.stock import age_of
from reconciler.operations.node.show import InForce, NodeShown, survey
from reconciler.operations.references import ref_of, unknown_ref
from reconciler.planner.core.facts import shown
from reconciler.store import queries
from reconciler.store.snapshot import read_world

LAST_EVENTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FactShown:
    """One fact that a host must show; `wanted` and `shown` are empty for what must not be there."""

    key: str
    result: CheckResult
    wanted: str = ""
    shown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """`age` is in seconds, None where the host never answered; `problem` is why it did not."""

    ref: str
    node: str = ""
    source: str = ""
    at: str = ""
    age: int | None = None
    probe: int = 0
    machine_id: str = ""
    boot_id: str = ""
    os: str = ""
    drivers: tuple[str, ...] = ()
    problem: str = ""
    approvals: tuple[InForce, ...] = ()
    readiness: tuple[Check, ...] = ()
    hardening: tuple[Check, ...] = ()
    facts: tuple[FactShown, ...] = ()
    proofs: tuple[Mapping[str, Any], ...] = ()
    audit: tuple[Event, ...] = ()


def evidence(fleet: Fleet, ref_text: str) -> Evidence:
    """Of an allocation or a node. Raises ProblemError `not_found`, `usage` for any other kind."""
    ref = ref_of(ref_text)
    if ref.kind not in ("allocation", "node"):
        raise refuse("usage", f"no host shows anything of {ref}", "name an allocation or a node")
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        proofs = queries.proofs(database, str(ref))
        audit = queries.last_events(database, str(ref), LAST_EVENTS)
    recorded = world.recorded.get(ref)
    name = world.node_of(ref)
    node = _survey(fleet, name) if name else None
    seen = world.observations.get(name)
    if not (recorded or audit or node or seen):
        raise unknown_ref(fleet, world, ref, "nothing of which anything was ever seen")
    return Evidence(
        ref=str(ref),
        node=name,
        **(_told(seen) if name else {}),
        age=age_of(seen.last_answer, fleet.now()) if seen else None,
        approvals=_covering(node.approvals, recorded) if node else (),
        readiness=node.readiness if node else (),
        hardening=node.hardening if node else (),
        facts=tuple(_facts(seen, recorded)) if recorded else (),
        proofs=proofs,
        audit=audit,
    )


def _survey(fleet: Fleet, name: str) -> NodeShown | None:
    """None where git knows no such node any more, or its file has errors."""
    try:
        return survey(fleet, name)
    except ProblemError:
        return None


def _told(seen: Observation | None) -> dict[str, Any]:
    if seen is None:
        return {"problem": "never observed"}
    if seen.facts is None:
        return {"at": seen.at, "problem": f"{seen.problem}: {seen.message}"}
    facts = seen.facts
    return {
        "at": seen.at,
        "source": facts.source,
        "probe": facts.probe_version,
        "machine_id": facts.machine_id,
        "boot_id": facts.boot_id,
        "os": facts.os,
        "drivers": tuple(sorted({gpu.driver for gpu in facts.gpus or () if gpu.driver})),
        "problem": f"{seen.problem}: {seen.message}" if seen.problem else "",
    }


def _covering(approvals: tuple[InForce, ...], recorded: Recorded | None) -> tuple[InForce, ...]:
    """Of an allocation those over the host and its slots."""
    if recorded is None or not recorded.slots:
        return approvals
    own = {"host", *recorded.slots}
    return tuple(one for one in approvals if own & set(one.covers))


def _facts(seen: Observation | None, recorded: Recorded) -> Iterator[FactShown]:
    facts = seen.facts if seen else None
    for key, wanted in sorted(recorded.facts.items()):
        found = shown(facts, key)
        result = CheckResult.PASS if found == wanted else CheckResult.FAIL
        if is_unknown(found) and found != wanted:
            result = CheckResult.UNKNOWN
        yield FactShown(key=key, result=result, wanted=wanted or "", shown=found or "")
