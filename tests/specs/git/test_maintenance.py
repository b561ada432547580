"""A copy into which is fetched for ever stays small, and loses nothing that is wanted of it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.settings import SourceSettings
from reconciler.specs.git import maintenance
from reconciler.specs.git.mirror import Mirror
from tests.harness.followed_command import adopting

WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "olga"), ("EMAIL", "olga@corp.example"))
}


def git(folder: Path, *words: str) -> str:
    environment = {**os.environ, **WHO}
    command = ["git", "-C", str(folder), *words]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return said.stdout.strip()


def pushed(place: Path, number: int, *words: str) -> None:
    (place / "specs" / f"user{number % 10}").write_text(f"{number}")
    git(place, "add", "-A")
    git(place, "commit", "-qm", f"{number}", *words)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    place = tmp_path / "source"
    (place / "specs").mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    pushed(place, 0)
    return place


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "copy")


def followed(mirror: Mirror, source: Path) -> str:
    commit = mirror.fetch(str(source), SourceSettings())
    mirror.follow(commit, mirror.followed())
    mirror.check_out(commit, str(source))
    return commit


def never() -> bool:
    return False


def counted(mirror: Mirror) -> tuple[int, int]:
    """Loose objects, and packs."""
    said = dict(line.split(": ") for line in git(mirror.bare, "count-objects", "-v").splitlines())
    return int(said["count"]), int(said["packs"])


def is_sound(mirror: Mirror) -> None:
    assert git(mirror.bare, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert git(mirror.tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("commits", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_many_commits_and_force_pushes_leave_a_few_packs(
    mirror: Mirror, source: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """What was applied last stays, although nothing leads to it any more; what was read as well."""
    monkeypatch.setattr(maintenance, "MOST_LOOSE", 50)
    monkeypatch.setattr(maintenance, "MOST_PACKS", 3)
    monkeypatch.setattr(maintenance, "KEPT", "now")
    first = applied = followed(mirror, source)
    lost, most = list[str](), 0
    for number in range(1, commits + 1):
        # Each third is pushed over the one before.
        again = () if number % 3 else ("--amend",)
        pushed(source, number, *again)
        commit = followed(mirror, source)
        if number % 3 == 2:
            lost.append(commit)
        if number == 26:
            applied = commit
        if number % 10 == 0:
            mirror.maintain(applied, never)
            loose, packs = counted(mirror)
            most = max(most, loose)
            assert packs <= 4
    assert applied in lost
    assert most <= 130
    assert mirror.has(applied) and mirror.has(first) and mirror.has(commit)
    assert mirror.descends(commit, first)
    assert not any(mirror.has(one) for one in lost[:-5] if one != applied)
    is_sound(mirror)


def test_what_was_read_within_a_day_stays(
    mirror: Mirror, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However old it is: whoever began to read it may be at it still."""
    monkeypatch.setattr(maintenance, "MOST_LOOSE", 0)
    followed(mirror, source)
    pushed(source, 1)
    before = followed(mirror, source)
    pushed(source, 2, "--amend")
    for file in (mirror.bare / "objects").rglob("*"):
        if file.is_file():
            os.utime(file, (1, 1))
    after = followed(mirror, source)
    mirror.maintain("", never)
    assert mirror.has(before) and mirror.has(after)
    is_sound(mirror)


def test_nothing_is_done_where_there_is_little(mirror: Mirror, source: Path) -> None:
    mirror.maintain("", never)
    assert not mirror.bare.exists()
    followed(mirror, source)
    loose, _ = counted(mirror)
    mirror.maintain("", never)
    assert counted(mirror) == (loose, 0)


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A git that begins to pack and never ends, nor does what it has begun."""
    real = subprocess.run(["which", "git"], check=True, capture_output=True, text=True).stdout
    place = tmp_path / "programs"
    place.mkdir()
    program = place / "git"
    program.write_text(
        f"""#!/bin/sh
case "$*" in *" gc "*) trap "" TERM; touch {tmp_path}/begun; sleep 300 & sleep 300;; esac
exec {real.strip()} "$@"
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    yield tmp_path / "begun"


def test_it_is_in_nobodys_way(
    mirror: Mirror, source: Path, hanging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants to go on ends it and all that it has begun, and it is done another time."""
    monkeypatch.setattr(maintenance, "MOST_LOOSE", 0)
    followed(mirror, source)
    with adopting():
        began = time.monotonic()
        with pytest.raises(ProblemError) as error:
            mirror.maintain("", hanging.exists)
        assert error.value.problems[0].code == "interrupted"
        assert time.monotonic() - began < 10
    is_sound(mirror)


def test_a_lock_from_before_the_clock_was_set_back_keeps_nobody_out(
    mirror: Mirror, source: Path
) -> None:
    followed(mirror, source)
    lock = mirror.bare / "refs/gpuaas/wanted.lock"
    lock.touch()
    os.utime(lock, (time.time() + 7200,) * 2)
    pushed(source, 1)
    assert followed(mirror, source)
    assert not lock.exists()


def test_what_a_killed_git_has_left_keeps_nobody_out(mirror: Mirror, source: Path) -> None:
    """Locks of refs, and packs that were never finished."""
    followed(mirror, source)
    locks = [
        mirror.bare / name
        for name in ("HEAD.lock", "config.lock", "packed-refs.lock", "refs/gpuaas/wanted.lock")
    ]
    half = mirror.bare / "objects/pack/.tmp-77-pack-x.pack"
    for path in (*locks, half):
        path.touch()
    pushed(source, 1)
    with pytest.raises(ProblemError):
        followed(mirror, source)
    for path in (*locks, half):
        os.utime(path, (1, 1))
    commit = followed(mirror, source)
    mirror.maintain(commit, never)
    assert not any(path.exists() for path in (*locks, half))
