"""Watching a repository, so that a commit is seen at once. It only ever shortens a sleep.

What git writes when a branch moves is watched, never the specs: edits that are in no commit change
nothing. Where the kernel watches no more files, and where what is watched was replaced, one goes
round and looks (F-REC-07).
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
OURS = ("objects", "lfs")


class Watch(FileSystemEventHandler):
    """`woken` is called after each burst. `degraded` says why only polling is left, if it is."""

    def __init__(self, repository: Path, woken: Callable[[], None]) -> None:
        self._folder = _git_folder(repository)
        self._woken = woken
        self._observer: BaseObserver | None = None
        self._identity: tuple[int, int] | None = None
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
        if self._identity != _identity(self._folder) or not emitting:
            self._end()
            self._observe()
            self._woken()

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in ("opened", "closed_no_write", "accessed"):
            return
        inner = os.path.relpath(os.fsdecode(event.src_path), self._folder).split("/")
        if inner[0] not in OURS:
            self._changed.set()

    def _observe(self) -> None:
        self._identity = _identity(self._folder)
        if self._identity is None:
            self.degraded = f"{self._folder} is not there to be watched"
            return
        for make, why in ((Observer, ""), (PollingObserver, "the kernel watches no more files")):
            observer = make(timeout=POLL_SECONDS) if why else make()
            try:
                observer.schedule(self, str(self._folder), recursive=False)
                refs = self._folder / "refs"
                if refs.is_dir():
                    observer.schedule(self, str(refs), recursive=True)
                observer.start()
            except (OSError, RuntimeError):
                with suppress(RuntimeError, OSError):
                    observer.stop()
                continue
            self._observer, self.degraded = observer, why and f"{why}: polled instead"
            return
        self._observer, self.degraded = None, "it cannot be watched at all"

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


def _git_folder(repository: Path) -> Path:
    """That of a work tree, whatever `.git` is, or the bare repository itself."""
    inner = repository / ".git"
    if inner.is_dir():
        return inner
    with suppress(OSError):
        word, _, path = inner.read_text(encoding="utf-8", errors="replace").strip().partition(": ")
        if word == "gitdir":
            found = (repository / path).resolve()
            with suppress(OSError):
                return (found / (found / "commondir").read_text(encoding="utf-8").strip()).resolve()
            return found
    return repository


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
