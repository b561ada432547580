"""`suspend loop` on real folders: nobody is shut out, and plans that go alone leave it be."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.operations.apply.suspension_watch import plan_again, revise
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.operations.specs import read_desired
from tests.harness.yard import Yard, copy_of, laid
from tests.operations.approval.test_approvals import A, B, alone, made
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Two allocations applied, for a loop that may do all; not to be changed."""
    rules = paper.policy(
        automation={"allow": "destroys"},
        guard={"maxRemovals": 5, "maxRemovalPercent": 100},
        grant={"mayBeOpenEnded": True},
    )
    folder = tmp_path_factory.mktemp("settled")
    yard = laid(folder, {"gpu01": 2, "gpu02": 2}, rules, made("a"), made("b"))
    assert yard.apply().code == 0
    return yard


@pytest.fixture
def yard(settled: Yard, tmp_path: Path) -> Yard:
    return copy_of(settled, tmp_path / "fleet")


def test_the_loop_leaves_alone_what_somebody_says(yard: Yard) -> None:
    yard.write(made("a", restart={"generation": 1}), made("b", restart={"generation": 1}))
    yard.commit()
    keys = yard.keys(A)
    # A short name of an allocation is taken for what it is.
    said = yard.gpuaas("suspend", "loop/vision/a", "--reason", "an audit", "--for", "2h")
    assert (said.code, said.document["result"]["scope"]) == (0, f"loop/{A}")
    assert yard.keys(A) == keys
    (shown,) = yard.gpuaas("status").document["result"]["suspended"]
    assert (shown["scope"], shown["reason"]) == (f"loop/{A}", "an audit")
    assert [str(c.ref) for c in alone(yard).done] == [B]
    (held,) = yard.gpuaas("approvals").document["result"]["held"]
    assert (held["ref"], held["code"], held["id"]) == (A, "loop_suspended", "")
    assert f"gpuaas resume loop/{A}" in str(yard.gpuaas("why", A).document)
    rows = yard.rows("SELECT ref, reason FROM event WHERE type = 'suspended'")
    assert rows == [(A, "an audit")]
    assert yard.gpuaas("resume", "loop/vision/a", "--reason", "done").code == 0
    assert [str(c.ref) for c in alone(yard).done] == [A]


def test_somebody_who_is_asked_may_go_on(yard: Yard) -> None:
    assert yard.gpuaas("suspend", "loop", "--reason", "a look first").code == 0
    yard.write(made("a", restart={"generation": 1}))
    yard.commit()
    assert alone(yard).done == ()
    assert [str(c.ref) for c in yard.apply_at().done] == [A]


def test_what_is_not_there_is_named(yard: Yard) -> None:
    yard.write(made("new"))
    yard.commit()
    assert yard.gpuaas("suspend", "loop/vision/new", "--reason", "not yet").code == 0
    assert alone(yard).done == ()
    for scope in ("loop/vision/nothing", "loop/", "loop/x/y/z", "loops", "loop/node/gpu09"):
        refused = yard.gpuaas("suspend", scope, "--reason", "x")
        assert refused.problems == ["not_found"], scope
        assert "loop" in refused.messages or "did you mean" in refused.messages


def test_it_stops_what_is_under_way_before_the_next_wave(yard: Yard) -> None:
    """Whoever sees an accident stops it, though somebody else has the lock."""
    yard.remove(made("a"))
    options = PlanOptions(unattended=True)
    fleet = yard.fleet()
    desired = read_desired(fleet)
    plan = plan_from(fleet, desired, yard.world, options)
    assert [str(c.ref) for c in plan.active] == [A] and plan.steps
    assert yard.gpuaas("suspend", "loop", "--reason", "not that one").code == 0
    fresh = plan_again(fleet, plan, desired, yard.world, options)
    revised = revise(plan, fresh, 0)
    assert {str(ref) for ref in revised.left_out} == {A}
    assert revised.plan.steps == ()
    assert [problem.code for problem in revised.problems] == ["suspended_meanwhile"]
