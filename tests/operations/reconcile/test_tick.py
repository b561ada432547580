"""A round: what it does, what it leaves, and what it costs when there is nothing to do."""

from __future__ import annotations

import resource
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.operations.fleet import utc_now
from tests.harness.yard import Yard
from tests.operations.reconcile.rounds import Rounds, counting_writes
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

DESK = paper.allocation("desk", node="gpu02", expiresAt=paper.LASTING)
SHED = paper.allocation("shed", project="nlp", node="gpu02", owner="bo", expiresAt=paper.LASTING)


@pytest.fixture
def rounds(yard: Yard) -> Rounds:
    return Rounds(yard, utc_now())


def done(found: object) -> list[str]:
    return [f"{c.action} {c.ref}" for c in found.done]  # type: ignore[attr-defined]


def test_a_commit_is_applied_and_an_edit_is_not(rounds: Rounds) -> None:
    """F-REC-17, CRD-04."""
    rounds()
    rounds.yard.write(DESK)
    assert done(rounds()) == []
    rounds.yard.commit()
    found = rounds()
    assert done(found) == ["create allocation/vision/desk"]
    assert rounds.yard.recorded("allocation/vision/desk").commit == found.commit
    assert any(rounds().idle for _ in range(5))


def test_a_host_that_was_changed_is_mended_within_one_cycle(rounds: Rounds) -> None:
    """STM-07; F-REC-11: there is no new commit."""
    rounds()
    one = rounds.yard.recorded("allocation/vision/train")
    keys = rounds.yard.root("gpu01") / f"etc/gpuaas/ssh/{one.login}"
    keys.unlink()
    for _ in range(7):
        found = rounds()
        if found.done:
            break
    assert done(found) == ["repair allocation/vision/train"]
    assert keys.exists()


def test_one_broken_file_freezes_its_own_and_others_go_on(rounds: Rounds) -> None:
    """F-REC-02, CRD-04."""
    rounds()
    (rounds.yard.specs / "allocation/vision/solo.yaml").write_text("kind: [", encoding="utf-8")
    rounds.yard.write(DESK)
    rounds.yard.commit()
    found = rounds()
    assert done(found) == ["create allocation/vision/desk"]
    assert found.plan is not None
    assert any(p.is_error for p in found.plan.problems)
    assert rounds.yard.recorded("allocation/vision/solo") is not None


def test_a_broken_node_delays_nobody_and_heals_by_itself(rounds: Rounds) -> None:
    """F-REC-03, F-REC-10, F-REC-11: its people keep what they have, others get what they want."""
    rounds()
    rounds.yard.write(SHED)
    with rounds.yard.away("gpu01"):
        rounds.yard.commit()
        asked = 0
        for number in range(20):
            found = rounds()
            asked += any(one.name == "node/gpu01" for one in found.failed)
            if number == 0:
                assert done(found) == ["create allocation/nlp/shed"]
        assert 2 <= asked <= 10
        assert rounds.yard.recorded("allocation/vision/train").phase == "active"
    for _ in range(7):
        found = rounds()
        if found.recovered:
            break
    assert found.recovered == ("node/gpu01",)
    assert rounds.yard.recorded("allocation/vision/train").phase == "active"


def test_a_host_that_answers_again_is_given_out_by_the_next_round(rounds: Rounds) -> None:
    """F-REC-11: the plan found it silent, and nobody has counted that as a failure."""
    rounds()
    rounds.yard.write(DESK)
    rounds.yard.commit()
    with rounds.yard.away("gpu02"):
        found = rounds()
        assert (found.silent, done(found)) == (("node/gpu02",), [])
    assert rounds().silent == ()
    assert done(rounds()) == ["create allocation/vision/desk"]


def test_what_cannot_succeed_is_tried_less_and_less(rounds: Rounds) -> None:
    """F-REC-10: one that always fails beside healthy ones; ten minutes, a handful of attempts."""
    rounds()
    rounds.yard.write(DESK)
    rounds.yard.commit()
    blocked = rounds.yard.root("gpu02") / "home"
    kept = blocked.rename(blocked.with_name("elsewhere"))
    blocked.write_text("no folder")
    runs = set()
    for _ in range(20):
        found = rounds(30)
        if found.run:
            runs.add(found.run)
    assert 2 <= len(runs) <= 7
    assert rounds.yard.recorded("allocation/vision/solo").phase == "active"
    blocked.unlink()
    kept.rename(blocked)
    for _ in range(10):
        found = rounds(300)
        if found.done:
            break
    assert "create allocation/vision/desk" in done(found)
    assert "allocation/vision/desk" in found.recovered


@pytest.mark.parametrize("number", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_idle_rounds_write_nothing_but_what_hosts_say(rounds: Rounds, number: int) -> None:
    """Nor do they grow: the loop is to run for months."""
    rounds.now += timedelta(hours=4)  # when what ends in this fleet has ended
    for _ in range(5):
        rounds()
    with counting_writes(rounds.yard) as events:
        for _ in range(number):
            rounds()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = sum(f.stat().st_size for f in (rounds.yard.folder / "state").glob("gpuaas.db*"))
        for _ in range(number):
            assert not rounds().done
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grown = sum(f.stat().st_size for f in (rounds.yard.folder / "state").glob("gpuaas.db*"))
    assert set(events) <= {"observed"}
    assert after - before < 8 * 1024
    assert grown <= size + (1 << 20)


def test_the_clock_moves(rounds: Rounds) -> None:
    """F-REC-14: set back by two hours, a year on and back again: rounds go on, hosts are asked."""
    rounds()
    for jump in (timedelta(hours=-2), timedelta(days=365), timedelta(days=-365)):
        rounds.now += jump
        if jump.days == 365:
            continue  # what ends within a year would end, and is none of this test
        seen = sum(rounds().observed for _ in range(7))
        assert seen >= 3


def test_while_git_is_away_only_upkeep_goes_on(rounds: Rounds, tmp_path: Path) -> None:
    yard = rounds.yard
    bare = tmp_path / "fleet.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
    push = ["git", "-C", yard.folder, "push", "-q", bare, "HEAD:refs/heads/main"]
    subprocess.run(push, check=True)
    text = f"operators: [olga]\nloop: {{source: {{url: {bare}, branch: main}}}}\n"
    (yard.folder / "gpuaas.yaml").write_text(text)
    rounds()
    one = yard.recorded("allocation/vision/train")
    keys = yard.root("gpu01") / f"etc/gpuaas/ssh/{one.login}"
    bare.rename(bare.with_name("away"))
    keys.unlink()
    found = [rounds() for _ in range(7)]
    assert [line for one in found for line in done(one)] == ["repair allocation/vision/train"]
    assert all(one.problems[0].code == "source_unreachable" for one in found)


def test_while_there_are_no_specs_only_upkeep_goes_on(rounds: Rounds) -> None:
    """F-REC-01: a folder that is gone from git stops what is new, and not what is to be mended."""
    yard, good = rounds.yard, rounds().commit
    one = yard.recorded("allocation/vision/train")
    shutil.rmtree(yard.specs)
    yard.commit()
    (yard.root("gpu01") / f"etc/gpuaas/ssh/{one.login}").unlink()
    found = [rounds() for _ in range(7)]
    assert [line for one in found for line in done(one)] == ["repair allocation/vision/train"]
    for last in found:
        assert (last.commit, last.problems[0].code) == (good, "spec_root_missing")
    subprocess.run(["git", "-C", yard.folder, "checkout", "-q", "HEAD~1", "specs"], check=True)
    yard.commit()
    last = rounds()
    assert (last.commit != good, last.problems) == (True, ())


def test_who_is_suspended_is_shut_out_while_git_is_away(rounds: Rounds) -> None:
    """Rule 9: revocation never waits for a clean repository."""
    rounds()
    said = rounds.yard.gpuaas("suspend", "user/bo", "--reason", "gone")
    assert said.code == 0
    assert not any("bo/" in key for key in rounds.yard.keys("allocation/vision/train"))
    assert not rounds().done
    assert not any("bo/" in key for key in rounds.yard.keys("allocation/vision/train"))


def test_an_empty_source_deletes_nothing(rounds: Rounds) -> None:
    """F-REC-01: no spec left in the commit."""
    rounds()
    before = rounds.yard.claims
    for file in rounds.yard.specs.rglob("*.yaml"):
        file.unlink()
    rounds.yard.commit()
    try:
        found = rounds()
    except ProblemError as error:
        assert error.problems[0].code in ("spec_root_missing", "spec_root_empty")
    else:
        assert not found.done
    assert rounds.yard.claims == before


def test_a_loop_that_was_killed_goes_on_from_what_is_true(rounds: Rounds) -> None:
    rounds()
    rounds.yard.write(DESK)
    rounds.yard.commit()
    rounds.restart()
    assert done(rounds()) == ["create allocation/vision/desk"]
    rounds.restart()
    assert done(rounds()) == []
