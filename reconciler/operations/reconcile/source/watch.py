"""Watches a repository, so that a commit is seen at once. It only shortens a sleep.

What git writes when a branch moves is watched, never the specs: edits that are in no commit change
nothing. Branches lie in files or in tables (`reftable`); a linked work tree has a HEAD of its own,
and its branches where all work trees have them. Where the kernel watches no more files, and where
what is watched was replaced, one goes round and looks (F-REC-07).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

QUIET_SECONDS, LONGEST_BURST = 0.3, 5.0
"""A burst of changes is one: it is over when it has been quiet for so long."""
POLL_SECONDS = 2.0
NO_BRANCHES = ("objects", "lfs", "index", "index.lock")
BRANCHES = ("refs", "reftable")


class Watch(FileSystemEventHandler):
    """`woken` is called after each burst. `degraded` says why only polling is left, if it is."""

    def __init__(self, repository: Path, woken: Callable[[], None]) -> None:
        self._folders = _git_folders(repository)
        self._woken = woken
        self._observer: BaseObserver | None = None
        self._identities: _Identities = ()
        self._changed = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._settle, name="watch", daemon=True)
        self.degraded = ""

    def start(self) -> None:
        self._observe()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._changed.set()
        self._end()
        self._thread.join(timeout=LONGEST_BURST)

    def check(self) -> None:
        """Watch anew if what was watched is no longer there, or nobody watches any more."""
        alive = self._observer is not None and self._observer.is_alive()
        emitting = alive and all(one.is_alive() for one in self._observer.emitters)  # type: ignore[union-attr]
        if self._identities != self._found() or not emitting:
            self._end()
            self._observe()
            self._woken()

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in ("opened", "closed_no_write", "accessed"):
            return
        path = Path(os.fsdecode(event.src_path))
        folder = next((one for one in self._folders if path.is_relative_to(one)), path)
        name = next(iter(path.relative_to(folder).parts), "")
        # Of what changed in a folder there is an event of its own.
        if name not in NO_BRANCHES and (name or event.event_type != "modified"):
            self._changed.set()

    def _observe(self) -> None:
        self._identities = self._found()
        if absent := [one for one in self._folders if _identity(one) is None]:
            self.degraded = f"{absent[0]} is not there to be watched"
            return
        for make, why in ((Observer, ""), (PollingObserver, "the kernel watches no more files")):
            observer = make(timeout=POLL_SECONDS) if why else make()
            try:
                for folder in self._folders:
                    observer.schedule(self, str(folder), recursive=False)
                for branches in filter(Path.is_dir, self._branches):
                    observer.schedule(self, str(branches), recursive=True)
                observer.start()
            except (OSError, RuntimeError):
                with suppress(RuntimeError, OSError):
                    observer.stop()
                continue
            self._observer, self.degraded = observer, why and f"{why}: polled instead"
            return
        self._observer, self.degraded = None, "it cannot be watched at all"

    @property
    def _branches(self) -> list[Path]:
        return [folder / name for folder in self._folders for name in BRANCHES]

    def _found(self) -> _Identities:
        return tuple(map(_identity, (*self._folders, *self._branches)))

    def _end(self) -> None:
        if self._observer is not None:
            with suppress(RuntimeError, OSError):
                self._observer.stop()
                self._observer.join(timeout=LONGEST_BURST)
        self._observer = None

    def _settle(self) -> None:
        while not self._over.is_set():
            self._changed.wait()
            until = time.monotonic() + LONGEST_BURST
            while self._changed.is_set() and time.monotonic() < until and not self._over.is_set():
                self._changed.clear()
                time.sleep(QUIET_SECONDS)
            self._changed.clear()
            if not self._over.is_set():
                self._woken()


def _git_folders(repository: Path) -> tuple[Path, ...]:
    """That of a work tree, whatever `.git` is, or the bare repository itself; behind one of a
    linked work tree that of all of them.
    """
    inner = repository / ".git"
    if inner.is_dir():
        return (inner,)
    with suppress(OSError):
        word, _, path = inner.read_text(encoding="utf-8", errors="replace").strip().partition(": ")
        if word == "gitdir":
            own = (repository / path).resolve()
            with suppress(OSError):
                common = (own / "commondir").read_text(encoding="utf-8").strip()
                return (own, (own / common).resolve())
            return (own,)
    return (repository,)


_Identities = tuple[tuple[int, int] | None, ...]


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
