"""The context of one plan: all that its rules may look at, each index built once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cached_property

from reconciler.kinds.policy import PolicySpec
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Claim
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Risk
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.state.world import Suspension, World
from reconciler.planner.access.suspensions import loop_suspensions
from reconciler.planner.approval import fingerprint_of, live
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.effective_spec import recorded_of
from reconciler.planner.core.policy import policy_of
from reconciler.planner.core.risks import risk_of
from reconciler.planner.storage.references import attached_storages, users_of_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """By which commits the differences are, and which removals that no commit made were named."""

    origins: Mapping[Ref, Origin] = field(default_factory=dict)
    uncommitted: frozenset[str] = frozenset()
    forced: frozenset[Ref] = frozenset()
    now: datetime | None = None
    unattended: bool = False


SAID_NOTHING = Said()


class Situation:
    def __init__(
        self,
        desired: Desired,
        world: World,
        differences: tuple[Difference, ...],
        hold_above: Risk | None = None,
        said: Said = SAID_NOTHING,
    ) -> None:
        self.desired = desired
        self.world = world
        self.differences = differences
        self.hold_above = hold_above
        self.origins = said.origins
        self.uncommitted = said.uncommitted
        self.forced = said.forced
        self.now = said.now
        self.unattended = said.unattended
        self.renamed = {d.former: d.ref for d in differences if d.former is not None}

    @cached_property
    def consents(self) -> Mapping[Ref, frozenset[str]]:
        """Fingerprints of what somebody has approved, by ref."""
        return live(self.world.consents, self.now)

    @cached_property
    def approved(self) -> Mapping[Ref, str]:
        """What of this is just what somebody has approved, by that fingerprint."""
        asked = (one for one in self.differences if one.ref in self.consents)
        found = {one.ref: self.fingerprint(one) for one in asked}
        return {ref: one for ref, one in found.items() if one in self.consents[ref]}

    def fingerprint(self, difference: Difference) -> str:
        """What a consent to it has to be for."""
        risk = risk_of(difference.action, is_forced=difference.ref in self.forced)
        claims = self.claims_of(difference.ref) if difference.recorded is None else ()
        begun = [claim.allocation_id for claim in claims]
        return fingerprint_of(difference, risk, begun)

    @cached_property
    def refs(self) -> frozenset[Ref]:
        """Refs of all differences."""
        return frozenset(one.ref for one in self.differences)

    @cached_property
    def paused(self) -> Mapping[str, Suspension]:
        """What the loop leaves alone, by its ref, where nobody is asked about this."""
        if not self.unattended or self.now is None:
            return {}
        return loop_suspensions(self.world.suspensions, self.now)

    @cached_property
    def claimed(self) -> frozenset[tuple[str, str | None]]:
        """Node and slot of every live claim; slot None is the whole node."""
        return frozenset((claim.node, claim.slot) for claim in self.world.claims)

    def claims_of(self, ref: Ref) -> Sequence[Claim]:
        """Live claims for it, recorded or not."""
        return self._claims.get(ref, ())

    @cached_property
    def _claims(self) -> Mapping[Ref, Sequence[Claim]]:
        found: dict[Ref, list[Claim]] = {}
        for claim in self.world.claims:
            found.setdefault(claim.ref, []).append(claim)
        return found

    @cached_property
    def claimed_nodes(self) -> frozenset[str]:
        return frozenset(claim.node for claim in self.world.claims)

    @cached_property
    def claimed_projects(self) -> frozenset[str]:
        return frozenset(claim.project for claim in self.world.claims)

    @cached_property
    def claiming(self) -> frozenset[Ref]:
        """Whoever holds anything, recorded or not."""
        return frozenset(claim.ref for claim in self.world.claims)

    @cached_property
    def attached(self) -> frozenset[Ref]:
        """Storages that some allocation has, or may have, by the names that they will have."""
        return frozenset(self.renamed.get(ref, ref) for ref in attached_storages(self.world))

    @cached_property
    def returnable(self) -> frozenset[Ref]:
        """What is quarantined, or is so by this plan."""
        releases = {d.ref: d for d in self.differences if d.action is Action.RELEASE}
        kept = {ref for ref, one in releases.items() if one.undo_minutes}
        resting = (r for r, one in self.world.recorded.items() if one.phase is Phase.QUARANTINED)
        return frozenset(kept.union(ref for ref in resting if ref not in releases))

    @cached_property
    def policy(self) -> PolicySpec:
        """As git says, else as recorded: a guard does not go together with its file."""
        return policy_of(self.desired, self.world)

    @cached_property
    def used(self) -> frozenset[Ref]:
        """Everything that a recorded resource refers to."""
        return frozenset(
            one.ref
            for resource in recorded_of(self.world, self.world.recorded)
            for one in KINDS[resource.ref.kind].refs(resource)
        ) | frozenset(users_of_data(self.world))
