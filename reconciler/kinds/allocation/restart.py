"""The restart of an allocation on its host: what it takes, and what must be seen afterwards.

A part of a host ends what runs in it; who has the whole host has it rebooted. Either way all that
was made for the allocation is asserted again, and its devices have to be there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reconciler.kinds.allocation.steps import step_of
from reconciler.kinds.contract import Binding
from reconciler.model.host.capacity import Shape
from reconciler.model.host.facts.named_fact import GPU, PRESENT, fact_key
from reconciler.model.host.facts.restart_fact import reached, restart_key
from reconciler.model.plan.items.allocation import RestartItem
from reconciler.model.plan.plan import Order, Step, step_id
from reconciler.model.plan.verb import Verb


def restarting(
    binding: Binding, uuids: Iterable[str], providing: tuple[Step, ...]
) -> tuple[Step, ...]:
    """The steps of a restart, in order; after a reboot keys may be gone, so they are written again.

    Keys come first nonetheless: taking access away waits for no reboot.
    """
    provide = tuple(step for step in providing if step.order is not Order.RETIRE)
    access = tuple(step for step in providing if step.order is Order.RETIRE)
    restart = _restart(binding, sorted(uuids))
    again = tuple(_again(step, binding) for step in access if step.verb != Verb.DETACH)
    again = again if reboots(restart) else ()
    return (*access, restart, *provide, *again)


def reboots(step: Step) -> bool:
    """Whether its host starts anew by this step."""
    return isinstance(step.item, RestartItem) and step.item.reboot


def _restart(binding: Binding, uuids: list[str]) -> Step:
    whole = binding.placement.shape is Shape.BAREMETAL
    item = RestartItem(
        id=binding.id,
        login=binding.login,
        uid=binding.uid or 0,
        generation=binding.restart,
        # A folder that stands for a host has no boot of its own.
        reboot=whole and binding.uid is not None,
        gpus=tuple(uuids),
    )
    facts = {
        restart_key(binding.id): reached(binding.restart),
        **{fact_key(GPU, uuid): PRESENT for uuid in uuids},
    }
    return step_of(binding, Verb.RESTART, Order.PROVIDE, item, facts)


def _again(step: Step, binding: Binding) -> Step:
    id = step_id(step.node, step.verb, step.ref, f"{binding.id} after restart")
    return replace(step, id=id, order=Order.PROVIDE)
