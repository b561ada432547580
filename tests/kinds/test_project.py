"""Project: owners, tenant, lease and what it refers to."""

from __future__ import annotations

from dataclasses import replace

from reconciler.kinds.registry import KINDS
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from tests.kinds.sample import Fleet

POLICY = Ref("policy", "", "fleet")


def test_a_good_project_has_no_problem() -> None:
    fleet = Fleet()
    assert fleet.problems("project/vision") == fleet.problems("project/nlp") == []


def test_everything_it_names_is_referred_to() -> None:
    """OBJ-08: members, SKUs and classes are references, to be found or refused."""
    found = {str(one.ref) for one in KINDS["project"].refs(Fleet().resource("project/vision"))}
    assert found == {"user/ana", "user/bo", "sku/h100-slice-1", "storage_class/shared-nfs"}


def test_somebody_owns_it() -> None:
    fleet = Fleet()
    fleet["project/nlp"]["members"] = [{"user": "bo", "role": "maintainer"}]
    assert fleet.only("project/nlp").code == "project_without_owner"


def test_its_tenant_is_known() -> None:
    """OBJ-08: the boundary of isolation and billing is one that the policy lists."""
    fleet = Fleet()
    fleet["project/nlp"]["tenant"] = "crop"
    problem = fleet.only("project/nlp")
    assert problem.code == "tenant_unknown"
    assert "corp" in problem.hint


def test_without_a_policy_there_is_no_tenant() -> None:
    fleet = Fleet()
    fleet.remove("policy/fleet")
    assert fleet.only("project/nlp").code == "policy_unsound"


def test_a_broken_policy_is_not_a_missing_one() -> None:
    """What could not be read is unknown, not absent: its own file says what is wrong."""
    fleet = Fleet()
    fleet.remove("policy/fleet")
    desired = fleet.desired()
    for unknown in (
        replace(desired, frozen=frozenset({POLICY})),
        replace(desired, broken=frozenset({"specs/policy.yaml"})),
    ):
        assert problems(unknown) == []


def problems(desired: Desired) -> list[object]:
    return list(KINDS["project"].check(desired.resources[Ref("project", "", "nlp")], desired))


def test_a_lease_is_not_longer_than_the_longest() -> None:
    fleet = Fleet()
    fleet["project/vision"]["lease"] = {"defaultHours": 10, "maxHours": 9}
    assert fleet.only("project/vision").code == "lease_too_long"


def test_kinds_are_no_project_names() -> None:
    """`user/ana` is a user, whatever projects there are."""
    fleet = Fleet()
    fleet.add("project/user", like="project/nlp")
    assert fleet.only("project/user").code == "name_reserved"


def test_not_stated_is_nothing() -> None:
    """Fail closed: a project without entitlements may use nothing."""
    spec = KINDS["project"].parse(
        {"tenant": "corp", "members": [{"user": "bo", "role": "owner"}], "quota": {"gpus": 1}}, "x"
    )
    assert spec.entitlements.skus == spec.entitlements.storage_classes == ()
    assert (spec.quota.allocations, spec.quota.storage_gib) == (16, 0)
    assert spec.lease.max_hours is None
