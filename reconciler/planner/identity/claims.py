"""Claims: those of an earlier, unfinished attempt, and whether they can still be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from reconciler.kinds.node.spec import NodeSpec
from reconciler.model.host.capacity import Claim, ClaimState, Need, Shape
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource


def groups_of(claims: Iterable[Claim]) -> Mapping[Ref, Mapping[str, tuple[Claim, ...]]]:
    """Live claims by ref, then by allocation id."""
    found: dict[Ref, dict[str, list[Claim]]] = defaultdict(lambda: defaultdict(list))
    for claim in claims:
        found[claim.ref][claim.allocation_id].append(claim)
    return {
        ref: {id: tuple(claims) for id, claims in sorted(by_id.items())}
        for ref, by_id in found.items()
    }


def can_resume(claims: Sequence[Claim], need: Need, node: Resource[NodeSpec]) -> bool:
    """Whether the claims of one allocation, all on `node`, are just what is asked for now."""
    return (
        all(claim.state is ClaimState.HELD for claim in claims)
        and claims[0].shape is need.shape
        and (need.shape is Shape.BAREMETAL or len(claims) == need.slots)
        and need.pin in ("", node.ref.name)
        and node.spec.family in need.families
        and node.spec.isolation in need.isolation
    )
