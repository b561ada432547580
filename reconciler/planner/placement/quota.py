"""Quota: limits of tenant, project and policy on a request, checked before any placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from reconciler.kinds.node.spec import NODES, AdminState
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.sku import SKUS, SkuState
from reconciler.model.host.capacity import ClaimState, Need
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.rules import first_refusal
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.core.authorship import is_operator
from reconciler.planner.core.refusal import Refusal, problem_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An allocation that asks for a place: what it needs, how many GPUs that is, and who asks."""

    resource: Resource
    need: Need
    gpus: int
    origin: Origin


class Limits:
    """What each project holds, updated while requests are admitted one after the other.

    Claims that wait for the end of a release count; those whose cleanup is blocked, or whose host
    is lost, do not.
    """

    def __init__(
        self,
        desired: Desired,
        world: World,
        sizes: Mapping[str, int],
    ) -> None:
        self.desired = desired
        self.world = world
        self.gpus: Counter[str] = Counter()
        self.allocations: Counter[str] = Counter()
        counted: set[str] = set()
        lost = {n.ref.name for n in NODES.of(desired) if n.spec.admin.state is AdminState.LOST}
        for claim in world.claims:
            if claim.node not in lost and claim.state in (ClaimState.HELD, ClaimState.RELEASING):
                self.gpus[claim.project] += 1 if claim.slot else sizes.get(claim.node, 1)
                self.allocations[claim.project] += claim.allocation_id not in counted
                counted.add(claim.allocation_id)

    def refusal(self, request: Request) -> Problem | None:
        """The first limit exceeded, in the order of `LIMITS`; None admits the request."""
        found = first_refusal(LIMITS, request, self)
        return problem_of(request.resource, found) if found else None

    def take(self, request: Request) -> None:
        self.gpus[request.need.project] += request.gpus
        self.allocations[request.need.project] += 1


def _not_entitled(request: Request, limits: Limits) -> Refusal | None:
    project = PROJECTS.get(limits.desired, request.need.project)
    entitled = project.spec.entitlements.skus if project else ()
    if request.need.sku in entitled:
        return None
    message = f"project {request.need.project} is not entitled to SKU {request.need.sku}"
    hint = f"entitled: {', '.join(entitled) or 'nothing'}; an operator entitles"
    return Refusal("not_entitled", message, hint)


def _sku_deprecated(request: Request, limits: Limits) -> Refusal | None:
    sku = SKUS.get(limits.desired, request.need.sku)
    if sku is None or sku.spec.state is not SkuState.DEPRECATED:
        return None
    message = f"SKU {request.need.sku} takes no new allocations"
    return Refusal("sku_deprecated", message, "take another SKU")


def _operator_only(request: Request, limits: Limits) -> Refusal | None:
    if not request.need.pin or is_operator(request.origin, limits.desired, limits.world):
        return None
    who = request.origin.email or request.origin.author or "somebody unknown"
    message = f"only an operator may pin a node, and {who} wrote this"
    return Refusal("operator_only", message, "take spec.node out, or ask an operator")


def _quota_exceeded(request: Request, limits: Limits) -> Refusal | None:
    name = request.need.project
    project = PROJECTS.get(limits.desired, name)
    if project is None:
        return None
    quota = project.spec.quota
    counted = (
        ("GPUs", limits.gpus[name], request.gpus, quota.gpus),
        ("allocations", limits.allocations[name], 1, quota.allocations),
    )
    for what, held, more, most in counted:
        if held + more > most:
            message = f"project {name} holds {held} {what}, {more} more would exceed its {most}"
            hint = f"release something, or raise quota in {project.file}"
            return Refusal("quota_exceeded", message, hint)
    return None


LIMITS: tuple[Callable[[Request, Limits], Refusal | None], ...] = (
    _not_entitled,
    _sku_deprecated,
    _operator_only,
    _quota_exceeded,
)
