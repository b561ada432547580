"""What the loop holds, and leave for it: of what the loop reads, whatever lies in the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.operations.fleet import os_login, utc_now
from reconciler.operations.liveness.presence import alone
from tests.harness.yard import Yard, laid
from tests.operations.reconcile.rounds import Rounds
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

A, B = "allocation/vision/a", "allocation/vision/b"


def made(name: str) -> dict[str, object]:
    return paper.allocation(name, expiresAt=paper.LASTING)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    """Whoever runs this is Cem; what is committed is Olga's."""
    cem = paper.user("cem", "laptop", "desk", osLogins=[os_login()])
    yard = laid(tmp_path / "fleet", {"gpu01": 2, "gpu02": 2}, made("a"), made("b"), cem)
    assert yard.apply().code == 0
    return yard


def held(yard: Yard) -> dict[str, str]:
    found = yard.gpuaas("approvals").document["result"]["held"]
    return {one["ref"]: one["id"] for one in found}


def test_a_round_does_what_was_approved_and_nothing_else(yard: Yard) -> None:
    rounds = Rounds(yard=yard, now=utc_now())
    rounds()
    yard.remove(made("a"))
    told = rounds()
    assert (told.done, [str(c.ref) for c in told.held]) == ((), [A])
    (id,) = held(yard).values()
    assert rounds().idle, "nothing has changed, so nothing is planned"
    # An edit that no commit has is nothing that the loop would do, nor what is approved.
    yard.file(made("b")).unlink()
    assert held(yard) == {A: id}
    with alone(yard.fleet()):
        assert held(yard) == {A: id}, "while a loop lives its tree is read as it is"
        given = yard.gpuaas("approve", id, "--reason", "cleared")
    assert given.code == 0, given.document
    told = rounds()
    assert [str(c.ref) for c in told.done] == [A]
    assert yard.recorded(B) is not None
    assert rounds().done == ()


def test_suspended_it_goes_on_looking_and_does_nothing(yard: Yard) -> None:
    rounds = Rounds(yard=yard, now=utc_now())
    rounds()
    assert yard.gpuaas("suspend", "loop", "--reason", "a look first").code == 0
    yard.write(paper.allocation("new", expiresAt=paper.LASTING))
    yard.commit()
    told = rounds()
    assert told.done == ()
    assert {c.problem.code for c in told.held if c.problem} == {"loop_suspended"}
    assert yard.gpuaas("resume", "loop", "--reason", "looked").code == 0
    assert [str(c.ref) for c in rounds().done] == ["allocation/vision/new"]


def test_an_empty_commit_releases_nothing(yard: Yard) -> None:
    """F-REC-01: a branch without specs is an error of each round, and no wish."""
    yard.write(
        paper.policy(
            automation={"allow": "destroys"},
            guard={"maxRemovals": 9, "maxRemovalPercent": 100},
            grant={"mayBeOpenEnded": True},
        )
    )
    yard.commit()
    rounds = Rounds(yard=yard, now=utc_now())
    rounds()
    claims, before = yard.claims, yard.hosts()
    for file in yard.specs.rglob("*.yaml"):
        file.unlink()
    (yard.specs / ".gitkeep").write_text("")
    yard.commit()
    told = rounds()
    assert told.done == ()
    assert told.plan and "spec_root_empty" in [p.code for p in told.plan.problems]
    assert (yard.claims, yard.hosts()) == (claims, before)
