"""`apply`: show a plan, get consent, do exactly that, and trust only what is read back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from reconciler.model.plan.plan import RISKS, Cause, Plan, Risk, fingerprint
from reconciler.model.problem import refuse
from reconciler.operations.apply.application import (
    Application,
    Applied,
    ApplyOptions,
    Progress,
    confirm,
    keep_waiting,
    options_of,
)
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.observe import Looks
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.force_detach import insist_on_forced
from reconciler.operations.plan.fresh import look_and_plan
from reconciler.operations.plan.saved import read_plan
from reconciler.operations.signals import Interrupts
from reconciler.store.queries import plan_used_at

Ask = Callable[[Plan], bool]

GIVEN = frozenset({Cause.EXPIRED, Cause.CONSENTED})
"""Causes that need no consent: somebody has given it before."""


def apply(
    fleet: Fleet, options: ApplyOptions, ask: Ask, on_progress: Progress, interrupts: Interrupts
) -> Applied:
    """Apply a plan. Raises ProblemError before anything is done; later problems are in the result.

    `ask` is shown the plan and says whether to go on; it knows of a consent given before, and is
    not called where there is nothing to do.
    """
    looks = Looks()
    plan = _plan_to_show(fleet, options, looks)
    if not plan.active:
        return Applied(plan=plan, problems=keep_waiting(fleet, plan))
    if not ask(plan):
        raise refuse("declined", "nothing was applied", "run it again and answer yes")
    ours = Application(
        fleet=fleet,
        options=options,
        options_of_plan=options_of(plan),
        looks=looks,
        on_progress=on_progress,
        interrupts=interrupts,
    )
    with ExitStack() as to_the_end:
        with writing(fleet, "apply") as journal:
            desired, world, fresh = look_and_plan(fleet, journal, ours.options_of_plan, looks)
            _insist(plan, fresh, saved=options.plan_file is not None)
            journal.snapshot(fleet.settings.keep.snapshots)
            # From here on a signal is a wish to stop; until now it simply ended the command.
            to_the_end.enter_context(interrupts)
            ours.begin(journal, desired, world, fresh)
        while ours.turns.gave_way:
            ours.go_on()
    return ours.result()


def _plan_to_show(fleet: Fleet, options: ApplyOptions, looks: Looks) -> Plan:
    if options.plan_file is None:
        wanted = PlanOptions(
            only=options.only,
            hold_above=options.approve,
            unattended=options.unattended,
            uncommitted=options.uncommitted,
            forced=options.forced,
        )
        with writing(fleet, "apply") as journal:
            _, world, plan = look_and_plan(fleet, journal, wanted, looks)
            insist_on_forced(fleet, plan)
            if not plan.active:
                confirm(fleet, journal, world, plan)
        return plan
    plan = read_plan(options.plan_file)
    insist_on_forced(fleet, plan)
    with fleet.reading() as database:
        used_at = plan_used_at(database, plan.fingerprint)
    if used_at:
        raise refuse(
            "plan_used",
            f"the plan {plan.fingerprint[7:15]} was applied on {used_at}",
            "make a new one: gpuaas plan --save FILE",
        )
    risky = [c for c in plan.active if c.cause not in GIVEN and _above(c.risk, options.approve)]
    if risky:
        raise refuse(
            "held_for_approval",
            f"{risky[0].ref} {risky[0].risk.value}, and the consent covers {options.approve}",
            f"give it: gpuaas apply {options.plan_file} --auto-approve={risky[0].risk.value}",
        )
    return plan


def _above(risk: Risk, limit: Risk | None) -> bool:
    return limit is not None and RISKS.index(risk) > RISKS.index(limit)


def _insist(shown: Plan, fresh: Plan, *, saved: bool) -> None:
    """Raise `plan_stale` unless the world still wants exactly what was shown.

    Whether anything else was written meanwhile counts only for a plan that was kept.
    """
    if fresh.fingerprint == shown.fingerprint:
        return
    if not saved and fingerprint(replace(fresh, serial=shown.serial)) == shown.fingerprint:
        return
    reasons = (
        (shown.state_id != fresh.state_id, "it was made for another state"),
        (shown.serial != fresh.serial, f"state #{shown.serial} is now #{fresh.serial}"),
        (shown.desired_digest != fresh.desired_digest, "the specs were changed"),
    )
    why = [text for differs, text in reasons if differs] or [_first_difference(shown, fresh)]
    raise refuse(
        "plan_stale",
        "what was shown is no longer what would be done: " + "; ".join(why),
        "look at the new plan: gpuaas plan",
    )


def _first_difference(shown: Plan, fresh: Plan) -> str:
    before = {(str(c.ref), c.action.value) for c in shown.changes}
    after = {(str(c.ref), c.action.value) for c in fresh.changes}
    changed = sorted(before ^ after)
    if changed:
        ref, action = changed[0]
        return f"{ref} ({action}) {'is new' if changed[0] in after else 'is gone'}"
    if shown.revision != fresh.revision:
        return "the specs were committed since, and hosts are told by which commit"
    return "time, hosts or templates have moved on, which changes a step"
