"""Leave for what is held, on real folders: for one change as it is, once, by somebody else."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.plan.plan import Plan, Risk
from reconciler.operations.apply.apply import Applied, ApplyOptions, apply
from reconciler.operations.fleet import os_login, utc_now
from reconciler.operations.signals import Interrupts
from tests.harness.yard import Said, Yard, copy_of, laid
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

A, B, C, D = (f"allocation/vision/{name}" for name in "abcd")


def made(name: str, **fields: Any) -> dict[str, Any]:
    return paper.allocation(name, expiresAt=paper.LASTING, **fields)


def person(name: str, *logins: str) -> dict[str, Any]:
    return paper.user(name, "laptop", "desk", osLogins=list(logins))


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Four allocations applied; whoever runs this is Olga. Not to be changed."""
    documents = (*map(made, "abcd"), person("olga", os_login()))
    yard = laid(tmp_path_factory.mktemp("settled"), {"gpu01": 2, "gpu02": 2}, *documents)
    assert yard.apply().code == 0
    return yard


@pytest.fixture
def yard(settled: Yard, tmp_path: Path) -> Yard:
    return copy_of(settled, tmp_path / "fleet")


def alone(yard: Yard, now: datetime | None = None) -> Applied:
    """An apply that nobody is asked about."""

    def nobody(plan: Plan) -> bool:
        return True

    fleet, options = yard.fleet(now), ApplyOptions(unattended=True, approve=Risk.DESTROYS)
    return apply(fleet, options, nobody, lambda progress: None, Interrupts())


def gone(yard: Yard, *names: str, by: str = "ana") -> None:
    files = [yard.file(made(name)) for name in names]
    for file in files:
        file.unlink()
    yard._commit(by, *map(str, files))


def listed(yard: Yard) -> Said:
    return yard.gpuaas("approvals")


def ids(said: Said) -> dict[str, str]:
    return {one["ref"]: one["id"] for one in said.document["result"]["held"]}


def approve(yard: Yard, *words: str) -> Said:
    return yard.gpuaas("approve", *words, "--reason", "looked at it")


def test_what_is_held_is_listed_approved_and_done_once(yard: Yard) -> None:
    gone(yard, "a")
    applied = alone(yard)
    assert [str(c.ref) for c in applied.done] == []
    assert applied.plan.changes[0].problem
    said = listed(yard)
    (held,) = said.document["result"]["held"]
    assert said.code == 5
    assert (held["ref"], held["action"], held["risk"]) == (A, "release", "destroys")
    assert (held["code"], held["author"]) == ("held_by_policy", "ana")
    assert held["file"].endswith("a.yaml") and held["commit"]
    assert held["id"] in applied.plan.changes[0].problem.hint
    # The same ID as long as nothing about it changes.
    assert ids(listed(yard)) == {A: held["id"]}
    given = approve(yard, held["id"])
    assert given.code == 0, given.document
    (one,) = listed(yard).document["result"]["given"]
    assert (one["ref"], one["reason"], one["usedAt"]) == (A, "looked at it", "")
    assert one["actor"] == os_login()
    assert listed(yard).code == 0
    assert [str(c.ref) for c in alone(yard).done] == [A]
    (one,) = listed(yard).document["result"]["given"]
    assert one["usedAt"]
    assert yard.rows("SELECT reason FROM event WHERE type = 'approved'") == [("looked at it",)]
    # Once: what comes again under the same name is asked about again.
    yard.write(made("a"))
    yard.commit()
    assert [str(c.ref) for c in alone(yard).done] == [A]
    gone(yard, "a")
    assert alone(yard).done == ()
    assert ids(listed(yard))[A] != held["id"]


def test_edited_after_it_was_approved_it_is_held_again(yard: Yard) -> None:
    yard.write(made("a", restart={"generation": 1}))
    yard.commit("ana")
    (first,) = ids(listed(yard)).values()
    assert approve(yard, first).code == 0
    yard.write(made("a", restart={"generation": 2}))
    yard.commit("ana")
    assert alone(yard).done == ()
    (second,) = ids(listed(yard)).values()
    assert second != first
    refused = approve(yard, first)
    assert (refused.code, refused.problems) == (1, ["not_found"])
    assert approve(yard, second).code == 0
    assert [str(c.ref) for c in alone(yard).done] == [A]


def test_all_that_are_held_for_the_same_have_one_id(yard: Yard) -> None:
    gone(yard, "a", "b")
    said = listed(yard)
    (both,) = said.document["result"]["sets"]
    assert both["refs"] == [A, B]
    assert approve(yard, both["id"]).code == 0
    # One more is another matter, and one ID is not for what came after it.
    gone(yard, "c")
    assert ids(listed(yard)).keys() == {C}
    refused = approve(yard, both["id"])
    assert refused.problems == ["not_found"]
    assert {str(c.ref) for c in alone(yard).done} == {A, B}


def test_unknown_words_name_the_nearest_and_where_to_look(yard: Yard) -> None:
    gone(yard, "a")
    (id,) = ids(listed(yard)).values()
    for word in (id[:-1] + ("a" if id[-1] != "a" else "b"), "nonsense"):
        refused = approve(yard, word)
        assert refused.problems == ["not_found"]
        assert "gpuaas approvals" in refused.messages
        assert "known:" not in refused.messages, "none of these is meant by a word like no other"
    assert id in approve(yard, id[:-1] + ("a" if id[-1] != "a" else "b")).messages
    assert approve(yard, id).code == 0
    assert "approved already" in approve(yard, id).messages
    assert yard.gpuaas("approve", id, "--reason", "  ").problems == ["usage"]


def test_nobody_approves_what_they_wrote_themselves(yard: Yard) -> None:
    gone(yard, "a", by="olga")
    (id,) = ids(listed(yard)).values()
    refused = approve(yard, id)
    assert (refused.code, refused.problems) == (1, ["second_person_required"])
    assert "olga wrote that" in refused.messages
    assert alone(yard).done == ()
    # By the Policy one person may be enough.
    one = paper.policy(
        approval={"secondPersonFor": []},
        guard={"maxRemovals": 5, "maxRemovalPercent": 100},
        grant={"mayBeOpenEnded": True},
    )
    yard.write(one)
    yard.commit()
    assert approve(yard, id).code == 0
    assert {str(c.ref) for c in alone(yard).done} == {A, "policy/fleet"}
    assert yard.recorded(A) is None


def test_another_edit_on_top_makes_it_nobody_elses(tmp_path: Path) -> None:
    """What destroys is of whoever wrote that, and not only of whoever came to the file last."""
    here, there = made("a", node="gpu01"), made("a", node="gpu02")
    documents = (here, person("olga", os_login()))
    yard = laid(tmp_path / "fleet", {"gpu01": 2, "gpu02": 2}, *documents)
    assert yard.apply().code == 0
    yard.write(there)
    yard.commit("olga")
    yard.write({**there, "metadata": {**there["metadata"], "labels": {"team": "blue"}}})
    yard.commit("ana")
    (id,) = ids(listed(yard)).values()
    refused = approve(yard, id)
    assert refused.problems == ["second_person_required"]
    assert "olga wrote that" in refused.messages
    # It is another one from where it was applied on: then it is hers no more.
    yard.write(here)
    yard.commit("ana")
    assert yard.apply().code == 0
    yard.write(made("a", node="gpu02"))
    yard.commit("ana")
    (id,) = ids(listed(yard)).values()
    assert approve(yard, id).code == 0


def test_a_restart_needs_no_second_person(yard: Yard) -> None:
    yard.write(made("a", restart={"generation": 1}))
    yard.commit("olga")
    (id,) = ids(listed(yard)).values()
    assert approve(yard, id).code == 0


def test_who_approves_and_who_wrote_it_are_known_people(yard: Yard) -> None:
    gone(yard, "a", by="eve")
    (id,) = ids(listed(yard)).values()
    refused = approve(yard, id)
    assert refused.problems == ["second_person_required"]
    assert "nobody in the specs" in refused.messages
    yard.write(person("olga", "another"))
    yard.commit()
    gone(yard, "b")
    id = ids(listed(yard))[B]
    assert approve(yard, id).problems == ["person_unknown"]


def test_who_evacuates_a_node_does_not_approve_what_moves(yard: Yard) -> None:
    """What moves is by whoever wants the node empty, not by whose allocation it is."""
    yard.write(made("a", labels={"team": "x"}))
    yard.commit("ana")
    assert yard.apply().code == 0
    spec = next(
        one for one in (yard.specs / "node").glob("*.yaml") if one.stem == yard.recorded(A).node
    )
    text = spec.read_text()
    spec.write_text(text + "  admin:\n    state: evacuating\n    reason: new cards\n")
    gone(yard, "c", "d")
    yard.commit("olga")
    moves = ids(listed(yard))[A]
    refused = approve(yard, moves)
    assert refused.problems == ["second_person_required"]
    assert f"{A} destroys, and olga wrote that" in refused.messages


def test_an_approval_ends(yard: Yard) -> None:
    gone(yard, "a")
    (id,) = ids(listed(yard)).values()
    assert yard.gpuaas("approve", id, "--reason", "x", "--for", "25h").problems == ["usage"]
    given = yard.gpuaas("approve", id, "--reason", "x", "--for", "2h")
    assert given.code == 0
    assert alone(yard, utc_now() + timedelta(hours=3)).done == ()
    assert ids(listed(yard)) == {}
    assert [str(c.ref) for c in alone(yard, utc_now() + timedelta(hours=1)).done] == [A]


def test_approving_does_nothing_by_itself(yard: Yard) -> None:
    gone(yard, "a")
    before = yard.hosts()
    approve(yard, *ids(listed(yard)).values())
    assert (yard.hosts(), yard.recorded(A).phase) == (before, "active")


def test_five_applies_of_one_are_counted_over_a_day(yard: Yard) -> None:
    """Each is small; together they are what the guard of one plan would hold."""
    yard.write(
        paper.policy(
            automation={"allow": "destroys"},
            guard={"maxRemovals": 2, "maxRemovalPercent": 1},
            grant={"mayBeOpenEnded": True},
        )
    )
    yard.commit()
    for name in "abc":
        gone(yard, name)
        alone(yard)
    assert [yard.recorded(ref) is None for ref in (A, B, C)] == [True, True, False]
    said = listed(yard)
    assert [one["code"] for one in said.document["result"]["held"]] == ["removals_guard"]
    # As it does where the consent was given before; somebody who looks may.
    assert yard.apply("--auto-approve=destroys").blocked == {C: "removals_guard"}
    assert approve(yard, *ids(said).values()).code == 0
    assert [str(c.ref) for c in alone(yard).done] == [C]
    # That one was looked at: it makes no room for others, and takes none from them.
    assert len(yard.world.removals) == 2
    gone(yard, "d")
    assert alone(yard).done == ()
    assert [str(c.ref) for c in yard.apply_at().done] == [D]


def test_an_empty_source_is_an_error_and_releases_nothing(yard: Yard) -> None:
    """F-REC-01: whatever may go alone; and what was approved is not on its way either."""
    yard.write(paper.policy(automation={"allow": "destroys"}, guard={"maxRemovals": 9}))
    yard.commit()
    alone(yard)
    before = yard.hosts()
    for file in yard.specs.rglob("*.yaml"):
        file.unlink()
    yard.commit()
    applied = alone(yard)
    assert applied.done == ()
    assert [problem.code for problem in applied.plan.problems] == ["spec_root_empty"]
    assert yard.gpuaas("plan").code == 1
    assert (listed(yard).code, listed(yard).problems) == (1, ["spec_root_empty"])
    assert {one.action.value for one in applied.plan.changes} == {"frozen"}
    yard.specs.rename(yard.folder / "elsewhere")
    assert yard.gpuaas("approvals").problems == ["spec_root_missing"]
    assert (yard.hosts(), len(yard.world.claims)) == (before, 4)
