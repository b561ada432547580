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

from reconciler.operations.reconcile import watch as module
from reconciler.operations.reconcile.watch import Watch

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
