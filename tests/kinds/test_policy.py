"""Policy: one, called fleet, with the defaults that other kinds rely on."""

from __future__ import annotations

from reconciler.kinds.registry import KINDS
from tests.kinds.sample import Fleet

POLICY = "policy/fleet"


def test_a_good_policy_has_no_problem() -> None:
    assert Fleet().problems(POLICY) == []


def test_what_is_not_stated_has_a_default() -> None:
    policy = KINDS["policy"].parse({"tenants": ["b", "a"]}, "fleet")
    assert policy.tenants == ("a", "b")
    assert (policy.lease.default_hours, policy.lease.warn_hours) == (336, (168, 24, 1))
    assert (policy.guard.max_removals, policy.guard.max_removal_percent) == (5, 10)
    assert policy.approval.second_person_for == ("destroys",)
    assert policy.release.undo_minutes == 60
    assert policy.evidence.max_age_minutes == 60


def test_there_is_one() -> None:
    fleet = Fleet()
    fleet.add("policy/other", like=POLICY)
    assert fleet.only("policy/other").code == "policy_unsound"
    assert fleet.problems(POLICY) == []


def test_a_default_is_not_above_its_limit() -> None:
    fleet = Fleet()
    fleet[POLICY]["lease"] = {"defaultHours": 2, "maxHours": 1}
    assert fleet.only(POLICY).code == "lease_too_long"


def test_accepted_drift_ends() -> None:
    fleet = Fleet()
    drift = {"ref": "node/gpu01", "key": "os", "reason": "x", "owner": "olga"}
    fleet[POLICY]["acceptedDrift"] = [{**drift, "until": "2027-02-30T00:00:00Z"}]
    problem = fleet.only(POLICY)
    assert problem.code == "value_pattern"
    assert problem.source and problem.source.path[2] == "node/gpu01"
    (reference,) = KINDS["policy"].refs(fleet.resource(POLICY))
    assert str(reference.ref) == "user/olga"
