"""What is told beside a loop that lives is of the commit that it follows, and of no folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reconciler.model.problem import ProblemError
from reconciler.operations.liveness.presence import alone
from reconciler.operations.reconcile.source.source import follow
from reconciler.operations.reconcile.source.tree import as_it_reads, mirror_of, stands
from tests.harness.yard import Yard
from tests.operations.reconcile.source.test_source import DESK, from_place, git

TRAIN = "allocation/vision/train"


@pytest.fixture
def upstream(yard: Yard, tmp_path: Path) -> Path:
    """A clone from which commits reach the repository that the loop follows."""
    bare, clone = tmp_path / "fleet.git", tmp_path / "clone"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(bare))
    git(yard.folder, "push", "-q", str(bare), "HEAD:refs/heads/main")
    git(tmp_path, "clone", "-q", str(bare), str(clone))
    loop = {"source": {"url": str(bare), "branch": "main"}}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump({"operators": ["olga"], "loop": loop}))
    return clone


def without_train(upstream: Path) -> None:
    git(upstream, "rm", "-q", "specs/allocation/vision/train.yaml")
    git(upstream, "commit", "-qm", "x")
    git(upstream, "push", "-q", "origin", "HEAD:main")


def words(yard: Yard) -> dict[str, tuple[str, str]]:
    rows = yard.gpuaas("status").document["result"]["allocations"]
    return {one["ref"]: (one["sync"], one["syncCause"]) for one in rows}


def shown(yard: Yard, capsys: pytest.CaptureFixture[str]) -> str:
    """The page, which is kept."""
    from reconciler.cli.main import run

    assert run(["-C", str(yard.folder), "status"]) == 0
    return capsys.readouterr().out


def test_status_is_of_the_commit_that_is_followed(yard: Yard, upstream: Path) -> None:
    """REC-07: else it tells other words than the metrics and what is published."""
    without_train(upstream)
    with alone(yard.fleet()):
        follow(yard.fleet())
        assert words(yard)[TRAIN] == ("held", "held_by_policy")
        yard.write(DESK)
        assert "allocation/vision/desk" not in words(yard), "it is in no commit"
    assert words(yard)[TRAIN] == ("in_sync", ""), "the folder counts again"


def test_a_look_at_what_is_held_moves_nothing(yard: Yard, tmp_path: Path) -> None:
    """Between two runs of a loop that is told its source: else the next one follows no push."""
    bare = tmp_path / "fleet.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(bare))
    git(yard.folder, "push", "-q", str(bare), "HEAD:refs/heads/main")
    told = from_place(yard, url=str(bare), branch="main")
    first = follow(told)
    yard.write(DESK)
    yard.commit()
    assert yard.gpuaas("approvals").code == 0
    assert (follow(told).commit, follow(told).stale) == (first.commit, None)


def sync_of(yard: Yard) -> str:
    found: str = yard.gpuaas("show", TRAIN).document["result"]["facts"]["sync"]
    return found.partition(":")[0].partition(" for ")[0] + found.partition(",")[2]


def test_one_is_told_as_the_fleet_is(yard: Yard, upstream: Path) -> None:
    """What the last plan said is told as such, as soon as there is another commit."""
    yard.commit()
    words(yard)
    assert sync_of(yard) == "in_sync"
    git(yard.folder, "rm", "-q", "specs/allocation/vision/train.yaml")
    git(yard.folder, "commit", "-qm", "x")
    assert sync_of(yard) == "in_sync as the last plan had it"
    assert words(yard)[TRAIN] == ("changes", "release")
    assert sync_of(yard) == "changes"
    git(yard.folder, "reset", "-q", "--hard", "HEAD~1")
    assert sync_of(yard) == "in_sync", "which was planned before"
    without_train(upstream)
    with alone(yard.fleet()):
        follow(yard.fleet())
        assert words(yard)[TRAIN] == ("held", "held_by_policy")
        assert sync_of(yard).startswith("held")


def test_a_page_that_is_kept_ends_with_the_next_commit(
    yard: Yard, upstream: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with alone(yard.fleet()):
        follow(yard.fleet())
        before = shown(yard, capsys)
        assert "held " not in before.partition("ALLOCATION")[2]
        without_train(upstream)
        follow(yard.fleet())
        page = shown(yard, capsys).partition("ALLOCATION")[2]
        assert "held/held_by_policy" in page or "held " in page


def test_while_a_commit_is_checked_out_nobody_knows(
    yard: Yard, upstream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.operations.reconcile.source.tree.PATIENCE_SECONDS", 0.0)
    with alone(yard.fleet()):
        follow(yard.fleet())
        reading = as_it_reads(yard.fleet())
        assert stands(reading)
        mirror_of(yard.fleet()).spoilt()
        assert not stands(reading)
        with pytest.raises(ProblemError):
            as_it_reads(yard.fleet())
        found = yard.gpuaas("status")
        assert found.code == 0
        assert "loop_running" in found.document["result"]["pending"]["unknown"]
