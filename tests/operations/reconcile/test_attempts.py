"""What fails counts once a round, and waits for its time whoever else wants it (F-REC-10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.operations.fleet import os_login, utc_now
from reconciler.operations.rounds.backoff import FIRST_SECONDS
from tests.harness.yard import laid
from tests.operations.reconcile.rounds import Rounds
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

TRAIN = paper.allocation("train", node="gpu01", expiresAt=paper.LASTING)
SHARED = paper.allocation("train", node="gpu01", access=["bo"], expiresAt=paper.LASTING)
DESK = paper.allocation("desk", node="gpu02", expiresAt=paper.LASTING)
GRANT = paper.grant("bo-on-desk", "desk", "bo", expiresAt="none")
ASKED = paper.policy(
    guard={"maxRemovals": 5, "maxRemovalPercent": 100},
    grant={"mayBeOpenEnded": True},
    automation={"rules": [{"kinds": ["grant"], "allow": "none"}]},
)


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    """Whoever runs this is Cem; grants wait for somebody's word."""
    cem = paper.user("cem", "laptop", "desk", osLogins=[os_login()])
    yard = laid(tmp_path / "fleet", {"gpu01": 2, "gpu02": 2}, TRAIN, ASKED, cem)
    assert yard.apply().code == 0
    found = Rounds(yard, utc_now())
    found()
    return found


def test_a_host_that_two_of_a_round_meet_in_vain_has_failed_once(rounds: Rounds) -> None:
    """By a change of it, and by the look at the end of the same round."""
    rounds.yard.write(SHARED)
    rounds.yard.commit()
    with rounds.yard.away("gpu01"):
        counts = [[one.count for one in rounds(FIRST_SECONDS + 1).failed] for _ in range(4)]
    assert counts == [[1], [2], [], [3]]


def test_a_host_that_answers_in_the_end_has_not_failed(rounds: Rounds) -> None:
    """A change of it went by what it had said before; the look at the end is of now."""
    rounds.yard.write(SHARED)
    rounds.yard.commit()
    with rounds.yard.away("gpu01"):
        assert [one.name for one in rounds().failed] == ["node/gpu01"]
    found = rounds()
    assert (found.failed, found.recovered) == ((), ("node/gpu01",))
    assert [str(change.ref) for change in rounds().done] == ["allocation/vision/train"]


def test_what_failed_is_not_tried_sooner_for_who_needs_it(rounds: Rounds) -> None:
    """A grant that was let go meanwhile waits with its allocation, and goes with it."""
    yard = rounds.yard
    yard.write(DESK, GRANT)
    yard.commit()
    home = yard.root("gpu02") / "home"
    home.write_text("no folder")
    rounds()
    found = rounds()
    assert [(one.name, one.count) for one in found.failed] == [("allocation/vision/desk", 2)]
    (held,) = yard.gpuaas("approvals").document["result"]["held"]
    assert yard.gpuaas("approve", held["id"], "--reason", "he may").code == 0
    found = rounds(1)
    assert (found.run, found.failed) == ("", ())
    assert found.postponed == ("allocation/vision/desk", "grant/vision/bo-on-desk")
    home.unlink()
    found = rounds(120)
    assert {str(change.ref) for change in found.done} >= set(found.recovered) > set()
    assert yard.recorded("grant/vision/bo-on-desk") is not None
