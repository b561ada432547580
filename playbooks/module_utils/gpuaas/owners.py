"""Owners: the files of one uid in a folder get another owner, in pieces that can be continued.

By open handles, so that nobody can put something else in between: no link is followed, nothing
that is mounted below is looked at. What has another name elsewhere stays, as that name would be
given away with it; groups and modes stay but for setuid, which would outlive its owner.
"""

from __future__ import annotations

import os
import re
import stat
import time
from bisect import bisect_left
from typing import Any, Optional, Sequence

from .paths import FOLDER, holder
from .probes import printable

MAX_DEPTH, MAX_LINKED, MAX_TOLD = 256, 200_000, 5
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MOUNT_ID = re.compile(r"^mnt_id:\s*(\d+)$", re.MULTILINE)

Place = tuple[str, ...]
"""Names from the folder downwards."""


class Progress:
    """How far a change of owner has come, in a form that can be kept.

    `names` counts the names seen of each file that has several; what all of them lie in the folder
    is given in a second round over it.
    """

    def __init__(self, told: Optional[dict[str, Any]] = None) -> None:
        told = told or {}
        self.at: Place = tuple(told.get("at", ()))
        self.second: bool = told.get("second", False)
        self.names: dict[str, int] = dict(told.get("names", {}))
        self.changed: int = told.get("changed", 0)
        self.left: dict[str, int] = dict(told.get("left", {}))
        self.examples: list[str] = list(told.get("examples", ()))

    def told(self) -> dict[str, Any]:
        return {key: list(v) if key == "at" else v for key, v in vars(self).items()}

    def leave(self, why: str, way: Place) -> None:
        self.left[why] = self.left.get(why, 0) + 1
        if len(self.examples) < MAX_TOLD:
            self.examples.append(f"{printable('/'.join(way))[-80:]} ({why})")


class Change:
    """From one uid to another, in the tree of an open folder, until `seconds` are over."""

    def __init__(self, old: int, new: int, progress: Progress, seconds: float) -> None:
        self.old, self.new, self.progress = old, new, progress
        self.changed = 0
        self._until, self._seen = time.monotonic() + seconds, 0
        self._mount = ""

    def go_on(self, folder: int) -> bool:
        """Whether all of it has been looked at; else `progress` says where to go on."""
        self._mount = _mount_of(folder)
        progress = self.progress
        while self._walk(folder, (), progress.at, MAX_DEPTH):
            progress.at = ()
            if progress.second or not progress.names:
                return True
            progress.second = True
        return False

    def _walk(self, folder: int, way: Place, at: Place, depth: int) -> bool:
        """In the order of names, from `at` on, which is still to be looked at."""
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            self._fail(error, way or (".",))
            return True
        for name in names[bisect_left(names, at[0]) if at else 0 :]:
            rest = at[1:] if at and name == at[0] else ()
            # Something new is done in each call, however long it takes to list folders.
            if self._seen and time.monotonic() > self._until:
                self.progress.at = (*way, name, *rest)
                return False
            self._seen += not rest
            if not self._look(folder, (*way, name), rest, depth):
                return False
        return True

    def _look(self, folder: int, way: Place, rest: Place, depth: int) -> bool:
        """False where the time was over on the way."""
        try:
            seen = os.stat(way[-1], dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(seen.st_mode) and seen.st_uid != self.old:
                self._note_container(seen, way)
                return True
            handle = os.open(way[-1], HANDLE, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._fail(error, way)
            return True
        try:
            if _mount_of(handle) != self._mount:
                self._leave("mounted there", way)
            elif stat.S_ISDIR(os.fstat(handle).st_mode):
                return self._enter(handle, way, rest, depth)
            else:
                self._give_file(handle, way)
            return True
        finally:
            os.close(handle)

    def _enter(self, handle: int, way: Place, rest: Place, depth: int) -> bool:
        try:
            folder = os.open(".", FOLDER, dir_fd=handle)
        except OSError as error:
            self._fail(error, way)
            return True
        try:
            seen = os.fstat(folder)
            if seen.st_uid == self.old:
                self._give(folder, way)
            else:
                self._note_container(seen, way)
            if depth == 0:
                self._leave("nested too deep", way)
                return True
            return self._walk(folder, way, rest, depth - 1)
        finally:
            os.close(folder)

    def _give_file(self, handle: int, way: Place) -> None:
        seen = os.fstat(handle)
        if seen.st_uid != self.old:
            return
        if stat.S_ISCHR(seen.st_mode) or stat.S_ISBLK(seen.st_mode):
            self._leave("a device", way)
        elif seen.st_nlink < 2 or self._has_all_names(seen, way):
            self._give(handle, way, seen.st_mode)

    def _has_all_names(self, seen: os.stat_result, way: Place) -> bool:
        """Known in the second round, when all names in the folder have been counted."""
        names, key = self.progress.names, f"{seen.st_dev:x}:{seen.st_ino}"
        if self.progress.second:
            whole = names.get(key) == seen.st_nlink
            if not whole:
                self._leave("more names elsewhere", way)
            return whole
        if key in names or len(names) < MAX_LINKED:
            names[key] = names.get(key, 0) + 1
        return False

    def _give(self, handle: int, way: Place, mode: int = 0) -> None:
        path = f"/proc/self/fd/{handle}"
        try:
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                os.chmod(path, stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))
            os.chown(path, self.new, -1)
        except OSError as error:
            self._fail(error, way)
        else:
            self.changed += 1
            self.progress.changed += 1

    def _note_container(self, seen: os.stat_result, way: Place) -> None:
        if seen.st_uid != self.old and holder(seen.st_uid) == self.old:
            self._leave("of a container's user", way)

    def _fail(self, error: OSError, way: Place) -> None:
        self._leave(os.strerror(error.errno or 0), way)

    def _leave(self, why: str, way: Place) -> None:
        """Told once: the second round comes to all of it again."""
        if self.progress.second == (why == "more names elsewhere"):
            self.progress.leave(why, way)


def told(left: dict[str, int], examples: Sequence[str]) -> str:
    """What was left, by why; empty if nothing was."""
    if not left:
        return ""
    counts = ", ".join(f"{count} {why}" for why, count in sorted(left.items()))
    return f"{counts}: {'; '.join(examples)}"


def _mount_of(handle: int) -> str:
    """Another mount of the same file system has its numbers, and is another one by this alone."""
    with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as file:
        found = MOUNT_ID.search(file.read())
    return found[1] if found else "unknown"
