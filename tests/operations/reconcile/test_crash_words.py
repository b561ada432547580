"""Words by which the loop goes on are said once or not at all, whenever their command is killed."""

from __future__ import annotations

import subprocess

import pytest

from tests.harness.crash import kill
from tests.harness.yard import Yard
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

SOLO = paper.allocation("solo", node="gpu02", protect=False, expiresAt=paper.LASTING)


@pytest.mark.parametrize("stop", ["accept_history.before", "accept_history.after"])
def test_a_killed_acceptance_of_a_history_is_said_again(yard: Yard, stop: str) -> None:
    """CRD-05: the former commit stands until it is done, and the event is there by then."""
    assert yard.gpuaas("reconcile", "--once").code == 0
    amend = ["git", "-C", yard.folder, "commit", "-q", "--amend", "--allow-empty", "-m", "other"]
    who = ["-c", "user.name=olga", "-c", "user.email=olga@corp.example"]
    subprocess.run([*amend[:1], *who, *amend[1:]], check=True)
    head = subprocess.run(
        ["git", "-C", yard.folder, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    word = ("reconcile", "accept", head, "--reason", "squashed")
    kill(yard, word, stop)
    assert "history_rewritten" in yard.gpuaas("reconcile", "--once").problems
    assert yard.gpuaas(*word).code == 0
    assert yard.gpuaas("reconcile", "--once").problems == []
    said = yard.rows("SELECT count(*) FROM event WHERE type = 'history_accepted'")
    assert said == [(1 if stop.endswith("before") else 2,)]


@pytest.mark.parametrize("stop", ["approve.before", "approve.after"])
def test_a_killed_approval_is_given_or_not(yard: Yard, stop: str) -> None:
    """CRD-05: once it is on the books it counts, and before that it does not."""
    yard.write(SOLO)
    yard.commit()
    assert yard.apply().code == 0
    yard.remove(
        SOLO, *(paper.grant(f"{user}-on-solo", "solo", user) for user in ("bo", "cem", "dana"))
    )
    who = ["git", "-C", yard.folder, "config", "user.email", "cem@corp.example"]
    subprocess.run(who, check=True)
    held = yard.gpuaas("approvals").document["result"]["held"]
    (one,) = [each for each in held if each["ref"] == "allocation/vision/solo"]
    kill(yard, ("approve", one["id"], "--reason", "it is meant"), stop)
    (given,) = yard.rows("SELECT count(*) FROM event WHERE type = 'approved'")[0]
    assert given == (0 if stop.endswith("before") else 1)
    yard.gpuaas("reconcile", "--once")
    assert (yard.recorded("allocation/vision/solo") is None) == bool(given)
