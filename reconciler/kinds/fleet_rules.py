"""The rules of the fleet as other kinds and features read them: the Policy, or its defaults."""

from __future__ import annotations

from reconciler.kinds.policy import FLEET, POLICIES, PolicySpec
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired

POLICY = Ref("policy", "", FLEET)
"""The one Policy that there is."""


DEFAULTS = PolicySpec(tenants=())
"""What holds where there is no Policy."""


def policy_in(desired: Desired) -> PolicySpec:
    """The rules of the fleet as these documents have them."""
    policy = POLICIES.get(desired, FLEET)
    return policy.spec if policy else DEFAULTS


def forbids_open_ends(desired: Desired) -> bool:
    """Whether the Policy allows no grant without an end; only one that is there forbids it."""
    policy = POLICIES.get(desired, FLEET)
    return policy is not None and not policy.spec.grant.may_be_open_ended
