"""Submodules of what the loop follows: had as soon as they are to be had, and never by halves."""

from __future__ import annotations

import os
from pathlib import Path

from reconciler.operations.reconcile.source.source import follow
from reconciler.operations.reconcile.source.tree import mirror_of
from tests.harness.yard import Yard
from tests.operations.reconcile.source.test_source import git, tree


def with_team(yard: Yard, tmp_path: Path) -> tuple[Path, Path]:
    """The repository of a submodule, and what the fleet's folder has of it."""
    team, inner = tmp_path / "team.git", yard.specs / "team"
    team.mkdir()
    git(team, "init", "-q")
    (team / "first.yaml").write_text("")
    git(team, "add", "-A")
    git(team, "commit", "-qm", "first")
    allow = ("-c", "protocol.file.allow=always")
    git(yard.folder, *allow, "submodule", "add", "-q", str(team), "specs/team")
    git(yard.folder, "commit", "-qm", "team")
    return team, inner


def grown(yard: Yard, team: Path, inner: Path) -> None:
    (team / "second.yaml").write_text("")
    git(team, "add", "-A")
    git(team, "commit", "-qm", "second")
    git(inner, "-c", "protocol.file.allow=always", "pull", "-q")
    git(yard.folder, "commit", "-qam", "team")


def test_a_submodule_that_was_away_is_asked_for_again(yard: Yard, tmp_path: Path) -> None:
    """After a while, and without another commit: what it takes away would never be taken."""
    team, inner = with_team(yard, tmp_path)
    follow(yard.fleet())
    grown(yard, team, inner)
    away = team.rename(tmp_path / "away")
    second = tree(follow(yard.fleet())) / "specs/team/second.yaml"
    assert not second.exists()
    away.rename(team)
    follow(yard.fleet())
    assert not second.exists(), "not in every round"
    partial = mirror_of(yard.fleet()).tree.with_name("partial")
    os.utime(partial, (0, 0))
    follow(yard.fleet())
    assert second.exists()
    assert not partial.exists()


def test_locks_of_a_submodule_that_a_killed_round_has_left(yard: Yard, tmp_path: Path) -> None:
    team, inner = with_team(yard, tmp_path)
    follow(yard.fleet())
    grown(yard, team, inner)
    (config,) = mirror_of(yard.fleet()).tree.parent.glob("modules/*/mirror.git/worktrees/*/HEAD")
    config.with_name("index.lock").write_text("")
    assert (tree(follow(yard.fleet())) / "specs/team/second.yaml").exists()
