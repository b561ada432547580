"""`plan`, from the files to the plan: read, snapshot, compare, place, order."""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from reconciler import shipped
from reconciler.model.plan.plan import Plan
from reconciler.model.problem import refuse
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations import observe
from reconciler.operations.cache.plan_cache import input_key, is_empty, remember
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.sync import keep_alarms
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.force_detach import insist_on_forced
from reconciler.operations.specs import read_desired, read_origins
from reconciler.planner import plan as planner_plan
from reconciler.planner.core.request import PlanRequest
from reconciler.store.snapshot import read_world


def make_plan(fleet: Fleet, options: PlanOptions) -> Plan:
    """What would change and why. Writes nothing, except that `refresh` keeps what hosts said."""
    if options.refresh:
        observe.refresh(fleet)
    with without_collector(), fleet.reading() as database:
        key = input_key(fleet, options, database)
        world = read_world(database)
        plan = plan_from(fleet, read_desired(fleet), world, options)
        insist_on_forced(fleet, plan)
        # Somebody may have edited meanwhile: only what was the same before and after is known.
        if key and is_empty(plan) and key == input_key(fleet, options, database):
            remember(fleet, key, plan)
        elif key:
            keep_alarms(fleet, plan)
    return plan


def plan_from(fleet: Fleet, desired: Desired, world: World, options: PlanOptions) -> Plan:
    """The plan over specs and state already in hand."""
    plan = planner_plan.plan(
        PlanRequest(
            desired=desired,
            world=world,
            now=fleet.now(),
            templates=shipped.templates(),
            sign=signer(fleet),
            origins=partial(read_origins, fleet),
            actor=fleet.actor.name,
            only=options.only,
            hold_above=options.hold_above,
            unattended=options.unattended,
            uncommitted=options.uncommitted,
            forced=options.forced,
            leases_from=options.leases_from,
        )
    )
    return replace(plan, hold_above=options.hold_above, unattended=options.unattended)


def signer(fleet: Fleet) -> Callable[[str], str]:
    """HMAC-SHA256 by the key of this control machine (rule 21); the key is read when first needed.

    Raises ProblemError `descriptor_key_missing` then, or `descriptor_key_exposed`.
    """

    def sign(text: str) -> str:
        return hmac.new(_descriptor_key(fleet), text.encode(), "sha256").hexdigest()

    return sign


def _descriptor_key(fleet: Fleet) -> bytes:
    name = fleet.settings.descriptor_key
    try:
        with (fleet.folder / name).open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            key = bytes.fromhex(file.read(MAX_KEY).strip())
    except (OSError, ValueError):
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise refuse(
            "descriptor_key_missing",
            f"{name}: no key to sign host descriptors with",
            "restore the file from your backup, or make a new one: gpuaas init",
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise refuse(
            "descriptor_key_exposed",
            f"{name} is open to others (mode {mode:04o}), who could sign descriptors with it",
            f"chmod 600 {name}; if somebody may have read it, make a new one in its place",
        )
    return key


MAX_KEY, MIN_KEY_BYTES = 4096, 32
