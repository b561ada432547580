"""Claims to be made: of a slot, or of a whole node, before any host is touched."""

from __future__ import annotations

from dataclasses import field

from reconciler.model.codec import written_as
from reconciler.model.host.capacity import Claim, ClaimState, Shape
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimIntent:
    """One claim. `uid` and `gid` are None without an account."""

    id: str
    allocation_id: str
    ref: Ref
    node: str
    slot: str | None
    shape: Shape
    tenant: str
    project: str
    login: str = ""
    uid: int | None = field(default=None, metadata=written_as(0))
    gid: int | None = field(default=None, metadata=written_as(0))

    def held(self, since: str = "") -> Claim:
        """The claim as it is once it has been made."""
        return Claim(
            id=self.id,
            allocation_id=self.allocation_id,
            ref=self.ref,
            node=self.node,
            slot=self.slot,
            shape=self.shape,
            state=ClaimState.HELD,
            since=since,
            tenant=self.tenant,
            project=self.project,
        )
