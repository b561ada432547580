"""A commit is seen at once; where nobody can watch, one goes round (F-REC-07, F-REC-13)."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.operations.reconcile.source import watch as module
from reconciler.operations.reconcile.source.watch import Watch
from tests import privileges

PATIENCE = 15.0


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=olga", "-c", "user.email=olga@corp.example")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def made(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "commit", "--allow-empty", "-qm", "x")


class Count:
    """How often somebody was woken."""

    def __init__(self) -> None:
        self.number = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.number += 1
            self._changed.notify_all()

    def reaches(self, number: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.number >= number, PATIENCE)


@contextmanager
def watching(folder: Path) -> Iterator[tuple[Watch, Count]]:
    count = Count()
    watch = Watch(folder, count)
    watch.start()
    try:
        yield watch, count
    finally:
        watch.stop()


def test_a_commit_wakes_and_an_edit_does_not(tmp_path: Path) -> None:
    """What is in no commit is not followed, so it is no reason to wake."""
    folder = made(tmp_path / "fleet")
    with watching(folder) as (watch, count):
        (folder / "a.yaml").write_text("x")
        (folder / "b.yaml").write_text("x")
        (folder / "b.yaml").replace(folder / "a.yaml")
        git(folder, "add", "a.yaml")
        time.sleep(3 * module.QUIET_SECONDS)
        assert count.number == 0
        commit(folder)
        assert count.reaches(1)
        assert watch.degraded == ""


def test_a_burst_is_one(tmp_path: Path) -> None:
    """F-REC-13: two hundred changes of a second, then quiet: few rounds, and one after the last."""
    folder = made(tmp_path / "fleet")
    with watching(folder) as (_, count):
        for number in range(40):
            git(folder, "update-ref", f"refs/heads/b{number}", "HEAD")
        assert count.reaches(1)
        time.sleep(4 * module.QUIET_SECONDS)
        assert count.number <= 3


def test_a_push_to_a_bare_repository_wakes(tmp_path: Path) -> None:
    folder, bare = made(tmp_path / "fleet"), tmp_path / "fleet.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(bare))
    with watching(bare) as (_, count):
        git(folder, "push", "-q", str(bare), "main")
        assert count.reaches(1)


def by_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the kernel watched no more files for this user."""

    def refuse(*words: object, **more: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(module, "Observer", refuse_observer(refuse))


def refuse_observer(refuse: Callable[..., None]) -> Callable[..., object]:
    class Full:
        def schedule(self, *words: object, **more: object) -> None:
            refuse()

        def stop(self) -> None:
            pass

    return Full


def test_without_inotify_it_polls_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REC-07: a limit that is reached is no silence."""
    by_limits(monkeypatch)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.2)
    folder = made(tmp_path / "fleet")
    with watching(folder) as (watch, count):
        assert "polled" in watch.degraded
        commit(folder)
        assert count.reaches(1)


def test_what_was_replaced_is_watched_anew(tmp_path: Path) -> None:
    """F-REC-07: the repository was cloned again, or a link switched to another one."""
    folder = made(tmp_path / "fleet")
    with watching(folder) as (watch, count):
        shutil.rmtree(folder)
        made(folder)
        watch.check()
        assert count.reaches(1)
        before = count.number
        time.sleep(3 * module.QUIET_SECONDS)
        commit(folder)
        assert count.reaches(before + 1)
        assert watch.degraded == ""


def test_what_is_gone_for_now_is_said_and_comes_back(tmp_path: Path) -> None:
    folder = made(tmp_path / "fleet")
    with watching(folder) as (watch, count):
        away = folder.rename(tmp_path / "away")
        watch.check()
        assert "not there" in watch.degraded
        away.rename(folder)
        watch.check()
        assert watch.degraded == ""
        before = count.number
        commit(folder)
        assert count.reaches(before + 1)


def test_whoever_died_is_replaced(tmp_path: Path) -> None:
    """F-REC-07: the watcher is dead and nobody knows."""
    folder = made(tmp_path / "fleet")
    with watching(folder) as (watch, count):
        observer = watch._observer
        assert observer is not None
        observer.stop()
        observer.join()
        watch.check()
        before = count.number
        commit(folder)
        assert count.reaches(before + 1)


def linked(folder: Path, *words: str) -> Path:
    """A work tree beside it, whose branch has a commit of its own."""
    found = folder.with_name("linked")
    git(folder, "worktree", "add", "-q", *words, str(found))
    return found


@pytest.mark.parametrize("words", [("-b", "other"), ("--detach",)], ids=["branch", "detached"])
def test_a_commit_in_a_linked_work_tree_wakes(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Its branch lies beside all others, and its HEAD in a folder of its own."""
    folder = linked(made(tmp_path / "fleet"), *words)
    with watching(folder) as (watch, count):
        commit(folder)
        assert count.reaches(1)
        before = count.number
        time.sleep(3 * module.QUIET_SECONDS)
        git(folder, "checkout", "-q", "--detach", "HEAD~1")
        assert count.reaches(before + 1)
        assert watch.degraded == ""


def test_a_link_to_a_repository_that_is_gone_is_said(tmp_path: Path) -> None:
    folder = linked(made(tmp_path / "fleet"), "--detach")
    with watching(folder) as (watch, _):
        shutil.rmtree(tmp_path / "fleet")
        watch.check()
        assert "not there" in watch.degraded


def test_branches_that_move_to_tables_are_watched_there(tmp_path: Path) -> None:
    """As `git refs migrate` does it, whatever this git can do itself."""
    folder = made(tmp_path / "fleet")
    with watching(folder) as (watch, count):
        tables = folder / ".git/reftable"
        tables.mkdir()
        assert count.reaches(1)
        watch.check()
        time.sleep(3 * module.QUIET_SECONDS)
        before = count.number
        (tables / "tables.list.lock").write_text("0x1-0x2.ref")
        (tables / "tables.list.lock").replace(tables / "tables.list")
        assert count.reaches(before + 1)


def reftables() -> str:
    said = subprocess.run(["git", "version"], check=True, capture_output=True, text=True).stdout
    version = tuple(map(int, said.split()[2].split(".")[:2]))
    return "" if version >= (2, 45) else "git is older than 2.45 here, and has no reftable"


@privileges.needs(reftables)
def test_a_commit_in_tables_wakes(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", "--ref-format=reftable")
    commit(folder)
    other = linked(folder, "-b", "other")
    for place in (folder, other):
        with watching(place) as (_, count):
            commit(place)
            assert count.reaches(1), place
