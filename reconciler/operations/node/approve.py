"""`node approve`: an operator's approval of a node, written into its file.

Nothing happens by it on any host. What a host says of itself is no part of it: where that
contradicts the spec, the operator is warned and decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from reconciler.kinds.approval import HOST, approved_names, name_digests
from reconciler.kinds.node.spec import Approval, NodeSpec
from reconciler.model.codec import encode
from reconciler.model.moment import format_moment
from reconciler.model.problem import Problem, ProblemError, Severity, refuse
from reconciler.model.records import dataclass
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.operations.fleet import Fleet
from reconciler.operations.node.device_overlaps import shared_devices
from reconciler.operations.person import operator
from reconciler.operations.references import node_of
from reconciler.operations.specs import read_desired
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.readiness import contradictions
from reconciler.specs.edit.edit import add_entry
from reconciler.specs.git import git
from reconciler.store.snapshot import read_world

PATH = ("spec", "approvals")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedNode:
    """What was written and where; `pending` names what still has no approval in force.

    `commit` is empty unless the file was committed. `problems` are warnings.
    """

    node: str
    approval: Approval
    file: str
    line: int
    commit: str = ""
    pending: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalScope:
    """What to approve: the named `slots`, the host alone, or by default everything without
    approval.
    """

    node: str
    slots: tuple[str, ...] = ()
    host_only: bool = False
    commit: bool = False


def approve(fleet: Fleet, wish: ApprovalScope) -> ApprovedNode:
    """Write an approval into the node's file, and commit that file if asked to.

    Raises ProblemError: for who may not approve, for what cannot be approved or needs none, and
    where the file cannot be edited. Then nothing was written.
    """
    desired = read_desired(fleet)
    node = node_of(desired, wish.node)
    by = operator(fleet, desired)
    spec: NodeSpec = node.spec
    covers = _covers(spec, wish)
    if twice := tuple(shared_devices(fleet, desired, node.ref)):
        raise ProblemError(twice)
    approval = Approval(
        by=by,
        at=format_moment(fleet.now()),
        covers=covers,
        digests=name_digests(spec, covers),
    )
    in_force = _in_force_with(spec, approval)
    if wish.commit:
        git.insist_on_rest(fleet.settings, node.file)
    entry = encode(approval)
    place = add_entry(fleet.settings, node.file, node.document, PATH, entry)
    return ApprovedNode(
        node=wish.node,
        approval=approval,
        file=node.file,
        line=place.line,
        commit=_commit(fleet.settings, node, approval) if wish.commit else "",
        pending=tuple(name for name in _names(spec) if name not in in_force),
        problems=tuple(_warnings(fleet, desired, node, covers)),
    )


def _names(spec: NodeSpec) -> tuple[str, ...]:
    return (HOST, *(slot.name for slot in spec.slots))


def _covers(spec: NodeSpec, wish: ApprovalScope) -> tuple[str, ...]:
    """What the approval is to cover, in the order of the spec."""
    names = _names(spec)
    if unknown := sorted(set(wish.slots) - set(names[1:])):
        message = f"{wish.node} has no slot {', '.join(unknown)}"
        raise refuse("not_found", message, f"slots: {', '.join(names[1:])}")
    wanted = {HOST} if wish.host_only else set(wish.slots) or set(names)
    covers = tuple(name for name in names if name in wanted - approved_names(spec))
    if not covers:
        asked = sorted(wish.slots) or ([HOST] if wish.host_only else ())
        what = ", ".join(asked) if asked else f"host and all {len(spec.slots)} slots"
        raise refuse(
            "already_approved",
            f"{wish.node} is approved as it stands: {what}",
            f"commit its file if that is still to be done; by whom: gpuaas node show {wish.node}",
        )
    return covers


def _in_force_with(spec: NodeSpec, approval: Approval) -> frozenset[str]:
    """What is approved once this approval is there as well."""
    in_force = approved_names(replace(spec, approvals=(*spec.approvals, approval)))
    if missing := sorted(set(approval.covers) - in_force):
        newest = max(one.at for one in spec.approvals)
        raise refuse(
            "approval_unsound",
            f"an approval of {newest} would still count for {', '.join(missing)}",
            "it lies in the future: correct this machine's clock, or take that approval out",
        )
    return in_force


def _commit(settings: Settings, node: Resource[NodeSpec], approval: Approval) -> str:
    return git.commit(settings, node.file, f"Approve {node.ref.name}: {', '.join(approval.covers)}")


def _warnings(
    fleet: Fleet, desired: Desired, node: Resource[NodeSpec], covers: Sequence[str]
) -> Iterator[Problem]:
    """Where the last evidence contradicts what was just approved."""
    for name, why in _doubts(fleet, desired, node.ref.name).items():
        if name in covers:
            yield Problem(
                code="approval_contradicted",
                message=f"{name} is approved, but the host last said otherwise: {why}",
                hint="nothing is placed there until both agree; look again: gpuaas plan --refresh",
                ref=str(node.ref),
                severity=Severity.WARNING,
            )


def _doubts(fleet: Fleet, desired: Desired, name: str) -> Mapping[str, str]:
    """Empty without a state: a host may be approved before anything was ever asked of it."""
    if not fleet.database_file.exists():
        return {}
    with fleet.reading() as database:
        world = read_world(database)
    offers = read_offers(desired, world, fleet.now(), {})
    return next((contradictions(offer) for offer in offers if offer.name == name), {})
