"""Saved plans: good for one apply, of one state, and of the file that was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.model.plan.plan import Plan
from reconciler.model.problem import ProblemError
from reconciler.operations.observe import refresh
from reconciler.store.file.lock import StateLock
from tests.harness.applied_fleet import BOX
from tests.harness.yard import Yard, card, copy_of
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk


def test_a_saved_plan_is_applied_as_it_is(applied: Yard) -> None:
    """CRD-03: the first plan of an empty state was applied, and nothing is left to do."""
    assert applied.claims == {
        "allocation/vision/train@gpu01/s0": "held",
        "allocation/vision/train@gpu01/s1": "held",
        "allocation/vision/solo@gpu02/s0": "held",
        "allocation/nlp/box@gpu03/*": "held",
    }
    assert applied.plan("--detailed-exitcode").code == 0


def test_a_plan_is_used_once_and_another_of_the_same_state_is_stale(yard: Yard) -> None:
    """F-PLN-05, CRD-03: refused with what changed; nothing is done, on host or in state."""
    hosts, serial = yard.hosts(), yard.world.serial
    again = yard.apply(str(yard.folder / "all.plan"))
    assert (again.code, again.problems) == (1, ["plan_used"])
    other = yard.apply(str(yard.folder / "some.plan"))
    assert (other.code, other.problems) == (1, ["plan_stale"])
    assert f"is now #{serial}" in other.messages
    assert (yard.hosts(), yard.world.serial) == (hosts, serial)


def test_a_plan_that_somebody_touched_is_refused(before: Yard, tmp_path: Path) -> None:
    """F-PLN-05: an edited file, one that is no plan, one that is not there."""
    yard = copy_of(before, tmp_path)
    file = yard.folder / "all.plan"
    saved = json.loads(file.read_text())
    for change in saved["plan"]["changes"]:
        change["protect"] = False
    edited = yard.folder / "edited.plan"
    edited.write_text(json.dumps(saved))
    cut = yard.folder / "cut.plan"
    cut.write_text(file.read_text()[:-40])
    for path in (edited, cut, yard.folder / "absent.plan"):
        refused = yard.apply(str(path))
        assert (refused.code, refused.problems) == (1, ["plan_damaged"]), path.name
    assert yard.claims == {}


def test_a_plan_of_another_state_is_refused(before: Yard, tmp_path: Path) -> None:
    """F-PLN-05: made for state A, applied with state B."""
    yard = copy_of(before, tmp_path)
    (yard.folder / "state").rename(yard.folder / "lost")
    assert yard.gpuaas("state", "init", "--new").code == 0
    refused = yard.apply(str(yard.folder / "all.plan"))
    assert (refused.code, refused.problems) == (1, ["plan_stale"])
    assert "another state" in refused.messages
    assert yard.claims == {}


def test_a_commit_after_the_plan_is_told_as_what_it_is(yard: Yard) -> None:
    """F-PLN-05: a stale plan that can be explained. What stands on hosts names the commit."""
    file = str(yard.folder / "late.plan")
    yard.write(paper.allocation("late"))
    assert yard.plan("--save", file).code == 0
    yard.commit("ana")
    stale = yard.apply(file)
    assert (stale.code, stale.problems) == (1, ["plan_stale"])
    assert "committed since" in stale.messages


def test_while_somebody_else_writes_nobody_does(yard: Yard) -> None:
    """F-PLN-09: a held lock is an error that names its holder; reading goes on."""
    file = str(yard.folder / "box.plan")
    yard.remove(BOX)
    with StateLock(yard.folder / "state/lock", actor="somebody", command="apply"):
        assert yard.plan("--detailed-exitcode", "--save", file).code == 2
        for words in (
            ("apply",),
            ("apply", file, "--auto-approve=destroys"),
            ("plan", "--refresh"),
        ):
            refused = yard.gpuaas(*words)
            assert (refused.code, refused.problems) == (1, ["state_locked"]), words
            assert "somebody (apply, pid" in refused.messages


def test_a_consent_covers_a_saved_plan_or_it_is_not_applied(yard: Yard) -> None:
    """A plan that destroys is applied whole or not at all: it is never cut to a consent."""
    file = str(yard.folder / "box.plan")
    yard.remove(BOX)
    assert yard.plan("--save", file).code == 0
    held = yard.apply(file, "--auto-approve=safe")
    assert (held.code, held.problems) == (5, ["held_for_approval"])
    assert "allocation/nlp/box@gpu03/*" in yard.claims


def test_specs_changed_while_a_person_thinks(before: Yard, tmp_path: Path) -> None:
    """F-PLN-10: what was shown is what is done, or nothing is."""
    yard = copy_of(before, tmp_path)

    def ask(plan: Plan) -> bool:
        yard.write(paper.user("eve"))
        return True

    with pytest.raises(ProblemError) as refused:
        yard.apply_at(ask=ask)
    (problem,) = refused.value.problems
    assert problem.code == "plan_stale"
    assert "specs were changed" in problem.message
    assert (yard.claims, yard.world.recorded, yard.rows("SELECT * FROM run")) == ({}, {}, [])


def test_a_host_drifts_while_a_person_thinks(before: Yard, tmp_path: Path) -> None:
    """F-PLN-10: a fact that changes a step stops the run; one that changes none does not count."""
    yard = copy_of(before, tmp_path)

    def ask(plan: Plan) -> bool:
        table = yard.root("gpu02") / "etc/gpuaas-standin/gpus.csv"
        table.write_text(table.read_text().replace(card("gpu02", 0), card("gpu02", 9)))
        refresh(yard.fleet())
        return True

    with pytest.raises(ProblemError) as refused:
        yard.apply_at(ask=ask)
    assert [problem.code for problem in refused.value.problems] == ["plan_stale"]
    assert yard.claims == {}


def test_nobody_to_ask_and_a_no_are_no_consent(yard: Yard) -> None:
    """F-CLI-02: without a terminal and without a consent nothing is done."""
    yard.remove(BOX)
    unasked = yard.gpuaas("apply")
    assert (unasked.code, unasked.problems) == (5, ["nobody_to_ask"])
    with pytest.raises(ProblemError) as declined:
        yard.apply_at(ask=lambda plan: False)
    assert [problem.code for problem in declined.value.problems] == ["declined"]
    assert yard.rows("SELECT count(*) FROM run") == [(1,)]
