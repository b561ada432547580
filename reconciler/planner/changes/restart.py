"""Restarts in a plan: what one needs, whom it interrupts, what stays, and whether it is done.

A generation is reached once. What its host tells of it decides that, not what this machine has
written down: whoever was killed in the middle goes on where the host is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.kinds.access.keys import key_lines
from reconciler.kinds.allocation.restart import reboots
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.registry import KINDS
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.plan.items.allocation import RestartItem
from reconciler.model.plan.plan import Change, Risk, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.spec.resource import Resource
from reconciler.planner.changes.change_set import ChangeSet, causes_of
from reconciler.planner.changes.stale import binding_of
from reconciler.planner.changes.text import UNKNOWN
from reconciler.planner.core.difference import Difference, has_begun
from reconciler.planner.core.facts import differing, listed
from reconciler.planner.identity.render_hash import basis_of

Waits = Mapping[str, frozenset[str]]


def restarted(
    change: Change, difference: Difference, changes: ChangeSet
) -> tuple[Change, tuple[Step, ...], Waits]:
    """Everything is asserted and proved anew afterwards, whatever the host has shown before.

    What follows a reboot waits for the new boot.
    """
    resource, recorded, context = difference.resource, difference.recorded, changes.context
    if resource is None or recorded is None:
        return change, (), {}
    kind, generation = KINDS[resource.ref.kind], resource.spec.restart.generation
    binding = replace(binding_of(recorded, resource, context.world), restart=generation)
    steps = kind.steps(binding, context)
    begun, stale = has_begun(difference, context.world), changes.stale.get(difference.ref)
    before = ALLOCATIONS.applied(recorded).restart.generation
    reason = f' "{resource.spec.restart.reason}"' if resource.spec.restart.reason else ""
    told = replace(
        change,
        summary=f"restart {before} -> {generation}{reason} · {change.summary}",
        risk=Risk.SAFE if begun else change.risk,
        steps=tuple(step.id for step in steps),
        basis=basis_of(kind.basis(binding, context)),
        caused_by=causes_of(stale, changes) if stale else (),
        facts={**_facts(binding, resource, steps, begun, context), **change.facts},
    )
    return told, steps, _waits(steps)


def _waits(steps: Sequence[Step]) -> Waits:
    at = next((at for at, step in enumerate(steps) if reboots(step)), len(steps))
    return {step.id: frozenset({steps[at].id}) for step in steps[at + 1 :]}


def _facts(
    binding: Binding, resource: Resource, steps: Sequence[Step], begun: bool, context: Context
) -> Mapping[str, str]:
    node, slots = binding.placement.node, ", ".join(binding.placement.slots)
    restart = next(step for step in steps if step.verb == Verb.RESTART)
    gpus = restart.item.gpus if isinstance(restart.item, RestartItem) else ()
    seen = context.world.observations.get(node)
    if begun:
        lacks = differing(seen.facts if seen else None, restart.expected)
        return {
            "kind": f"{node} has restarted it already: what it keeps is asserted and proved",
            "lacks": listed(f"{key} ({fact or 'absent'})" for key, fact, _ in lacks) or "nothing",
        }
    if reboots(restart):
        kind = f"reboot of {node}, which is this allocation's alone"
    elif binding.uid is not None:
        kind = (
            f"account restart: all processes of {binding.login}, GPU {slots} reset where it can"
            " be; node and neighbours stay up"
        )
    else:
        kind = f"{node} is a folder, in which nothing runs; what it keeps is asserted and proved"
    mounts = [f"{one.mount_path} ({one.name})" for one in resource.spec.storage]
    facts = {
        "kind": kind,
        "hits": _hits(binding, resource, seen.facts if seen else None, context),
        "on GPU": _on_cards(gpus, seen.facts if seen else None),
        "keeps": ", ".join(("login", "keys", "endpoint", "home", "scratch", *mounts)),
    }
    return {**facts, "empties": "/tmp, /var/tmp, /dev/shm"} if binding.uid is not None else facts


def _hits(binding: Binding, resource: Resource, facts: NodeFacts | None, context: Context) -> str:
    """Everything that ends, by name; what nobody has observed is unknown, never nothing."""
    if binding.uid is None:
        return "nothing"
    if facts is None or facts.running is None:
        return f"{UNKNOWN}: {binding.placement.node} has not told what runs there"
    running = facts.running.get(binding.login, ())
    return listed(_named(running, resource, context), " · ") or "nothing runs there"


def _named(running: Sequence[str], resource: Resource, context: Context) -> Iterator[str]:
    """The sessions, with people's names in place of their keys."""
    owners: dict[str, str] = {
        one.fingerprint: one.user for one in key_lines(resource, context.desired, context.now)
    }
    for one in running:
        word, _, rest = one.partition(" ")
        if word != "session":
            yield one
            continue
        id, *keys = rest.split()
        people = sorted({owners.get(key, "a key of nobody's") for key in keys})
        yield f"session {id} ({', '.join(people) or 'opened without a key'})"


def _on_cards(uuids: Sequence[str], facts: NodeFacts | None) -> str:
    """Processes on its GPUs, as the driver reports them."""
    seen = {gpu.uuid: gpu.processes for gpu in (facts.gpus if facts else None) or ()}
    pids = [seen.get(uuid) for uuid in uuids]
    if None in pids:
        return UNKNOWN
    return listed(pid for found in pids for pid in found or ()) or "nothing"
