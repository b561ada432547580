"""Preparation: the hosts that a plan makes ready before anybody is placed on them.

A host is touched once a human has approved it, and again when what it should show is no longer
what it was made to show, or no longer what it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reconciler.kinds.approval import HOST, approved_names
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.node.spec import NODES, AdminState, NodeSpec
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Isolation, Placement, Shape
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.plan.plan import Risk, Step
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.planner.access.login_checks import refusal_of_all
from reconciler.planner.core.facts import differing, told
from reconciler.planner.core.policy import Leniency, leniency_of
from reconciler.planner.identity.render_hash import basis_of, is_basis, is_rerendered

NEVER = "never prepared"
OTHERWISE = "prepared otherwise than it would be now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """The preparation of one node: what it is made from, and why; `steps` are never empty.

    `rerendered` says that only the program makes it otherwise: a `risk` for whoever works there, as
    nobody has asked for it. One that `mends` only makes again what the host no longer shows.
    """

    resource: Resource
    recorded: Recorded | None
    basis: str
    why: str
    steps: tuple[Step, ...]
    rerendered: bool = False
    mends: bool = False
    risk: Risk = Risk.SAFE


def find_preparations(
    context: Context, reaches: Callable[[Ref], bool]
) -> Mapping[Ref, Preparation]:
    """Every node within reach of the plan that is to be prepared, by its ref."""
    found: dict[Ref, Preparation] = {}
    leniency = leniency_of(context.desired, context.world, context.now)
    for node in NODES.of(context.desired):
        ref = node.ref
        if _never_touched(node, context.world.recorded.get(ref)):
            continue
        if may_be_touched(node) and reaches(ref):
            preparation = _preparation(node, context, leniency)
            if preparation is not None:
                found[ref] = preparation
    return dict(sorted(found.items()))


def unprepared(node: Resource[NodeSpec], world: World) -> str:
    """Why a host is not ready for tenants as far as it was ever prepared; empty if it is."""
    if node.spec.isolation is not Isolation.ACCOUNT:
        return ""
    recorded = world.recorded.get(node.ref)
    if recorded is None or not recorded.facts:
        return NEVER
    seen = world.observations.get(node.ref.name)
    for key, shown, made in differing(seen.facts if seen else None, recorded.facts):
        return f"{key} is {told(shown, made)[0]}"
    return refusal_of_all(seen.facts if seen else None)


def _never_touched(node: Resource[NodeSpec], recorded: Recorded | None) -> bool:
    """Unchanged since it was recorded without being prepared: then it is not to be, either.

    Asked first, as it looks into no spec: a fleet may have very many such nodes.
    """
    return recorded is not None and recorded.digest == node.digest and not recorded.basis


def may_be_touched(node: Resource[NodeSpec]) -> bool:
    """Whether anything may be written on a host, by what git says of it."""
    return (
        node.spec.isolation is Isolation.ACCOUNT
        and node.spec.admin.state not in (AdminState.UNAVAILABLE, AdminState.LOST)
        and not KINDS["node"].unsupported(node)
        and HOST in approved_names(node.spec)
    )


def _preparation(
    node: Resource[NodeSpec], context: Context, leniency: Leniency
) -> Preparation | None:
    recorded = context.world.recorded.get(node.ref)
    binding = Binding(
        ref=node.ref,
        id="",
        login="",
        placement=Placement(
            node=node.ref.name,
            slots=tuple(slot.name for slot in node.spec.slots),
            shape=Shape.BAREMETAL,
        ),
        resource=node,
        recorded=recorded,
    )
    made_from = KINDS["node"].basis(binding, context)
    basis = basis_of(made_from)
    same = recorded is not None and is_basis(recorded.basis, basis, made_from)
    why = _reason(node, recorded, same, _answer(node, context.world), leniency)
    steps = KINDS["node"].steps(binding, context) if why else ()
    if not steps:
        return None
    rerendered = why == OTHERWISE and _is_rerendered(node, recorded, basis)
    inhabited = bool(context.world.claims_on(node.ref.name))
    return Preparation(
        resource=node,
        recorded=recorded,
        basis=basis,
        why=why,
        steps=steps,
        rerendered=rerendered,
        mends=why not in (NEVER, OTHERWISE),
        risk=Risk.INTERRUPTS if rerendered and inhabited else Risk.SAFE,
    )


def _is_rerendered(node: Resource[NodeSpec], recorded: Recorded | None, basis: str) -> bool:
    if recorded is None or recorded.digest != node.digest:
        return False
    return is_rerendered(recorded.basis, basis)


def _answer(node: Resource[NodeSpec], world: World) -> NodeFacts | None:
    seen = world.observations.get(node.ref.name)
    return seen.facts if seen and not seen.problem else None


def _reason(
    node: Resource[NodeSpec],
    recorded: Recorded | None,
    same: bool,
    facts: NodeFacts | None,
    leniency: Leniency,
) -> str:
    """Only a host that answers is touched, and again only for what it was seen to show."""
    if facts is None:
        return ""
    if recorded is None or not recorded.facts:
        return NEVER
    if not same:
        return OTHERWISE
    for key, shown, made in differing(facts, recorded.facts):
        if not is_unknown(shown) and not leniency.leaves(node.ref, key, shown):
            return f"{key} is {told(shown, made)[0]}"
    return ""
