"""Policy: the rules of the fleet, exactly one, named `fleet`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from operator import attrgetter

from reconciler.kinds.automation import Automation, in_order
from reconciler.kinds.automation import check as check_automation
from reconciler.kinds.checks.findings import finding, same_moment, unreal_times
from reconciler.kinds.plain import NO_HOST_EFFECTS, everything_is_supported
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "Policy"

FIELD_RULES: Mapping[str, str] = {"labels": "live", "spec": "none"}

FLEET = "fleet"
"""The name of the one that there is."""


class Repair(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class Strategy(StrEnum):
    """Which of the nodes that fit: the fullest, so that whole ones stay, or the emptiest."""

    PACK = "pack"
    SPREAD = "spread"


class Containers(StrEnum):
    ROOTLESS = "rootless"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRules:
    default_hours: int = 336
    max_hours: int = 2160
    grace_hours: int = 24
    warn_hours: tuple[int, ...] = (168, 24, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRules:
    max_hours: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """How long a release can be taken back; 0 = it destroys at once."""

    undo_minutes: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRules:
    max_days: int = 30
    may_be_open_ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    second_person_for: tuple[str, ...] = ("destroys",)
    expires_hours: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    max_removals: int = 5
    max_removal_percent: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRules:
    max_age_minutes: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRules:
    """`user` can only be never: what users own is theirs."""

    platform: Repair = Repair.AUTO
    access: Repair = Repair.AUTO
    user: Repair = Repair.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    strategy: Strategy = Strategy.PACK


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRules:
    keep_versions: int = 3
    allow_unknown_compatibility: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """Whether the loop follows signed commits only; in `folders` below the spec root, or in all."""

    require_signed: bool = False
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRules:
    keep_snapshots: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedDrift:
    ref: str
    key: str
    reason: str
    owner: str
    until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    tenants: tuple[str, ...]
    lease: LeaseRules = field(default_factory=LeaseRules)
    wait: WaitRules = field(default_factory=WaitRules)
    release: ReleaseRules = field(default_factory=ReleaseRules)
    grant: GrantRules = field(default_factory=GrantRules)
    approval: ApprovalRules = field(default_factory=ApprovalRules)
    guard: GuardRules = field(default_factory=GuardRules)
    automation: Automation = field(default_factory=Automation)
    evidence: EvidenceRules = field(default_factory=EvidenceRules)
    repair: RepairRules = field(default_factory=RepairRules)
    placement: PlacementRules = field(default_factory=PlacementRules)
    containers: Containers = Containers.NONE
    bundles: BundleRules = field(default_factory=BundleRules)
    source: SourceRules = field(default_factory=SourceRules)
    state: StateRules = field(default_factory=StateRules)
    accepted_drift: tuple[AcceptedDrift, ...] = ()


def parse(spec: Mapping[str, object], name: str) -> PolicySpec:
    policy = decode(PolicySpec, spec)
    warn = tuple(sorted(policy.lease.warn_hours, reverse=True))
    risks = tuple(sorted(policy.approval.second_person_for))
    drift = sorted(policy.accepted_drift, key=attrgetter("ref", "key"))
    return replace(
        policy,
        tenants=tuple(sorted(policy.tenants)),
        lease=replace(policy.lease, warn_hours=warn),
        automation=in_order(policy.automation),
        approval=replace(policy.approval, second_person_for=risks),
        accepted_drift=tuple(replace(d, until=same_moment(d.until) or d.until) for d in drift),
    )


POLICIES = TypedSpecs(kind="policy", parse=parse)


def refs(resource: Resource[PolicySpec]) -> Iterator[Reference]:
    for drift in resource.spec.accepted_drift:
        path = ("spec", "acceptedDrift", drift.ref, "owner")
        yield Reference(ref=Ref("user", "", drift.owner), path=path)


def check(resource: Resource[PolicySpec], desired: Desired) -> Iterator[Problem]:
    spec: PolicySpec = resource.spec
    if resource.ref.name != FLEET:
        message = f"a Policy named {resource.ref.name} would rule nothing"
        hint = "there is one Policy, and its name is fleet"
        yield finding(resource, ("metadata", "name"), "policy_unsound", message, hint)
    if spec.lease.default_hours > spec.lease.max_hours:
        message = "the default lease is longer than the longest"
        path = ("spec", "lease", "defaultHours")
        yield finding(resource, path, "lease_too_long", message, "raise maxHours or lower it")
    for drift in spec.accepted_drift:
        place = ("spec", "acceptedDrift", drift.ref, "until")
        yield from unreal_times(resource, [(place, drift.until)])
    yield from check_automation(resource, desired)


unsupported = everything_is_supported
needs, basis, steps, expected = NO_HOST_EFFECTS
