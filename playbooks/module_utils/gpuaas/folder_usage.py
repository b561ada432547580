"""Folder usage: how much the files in a folder take, as far as a budget allows counting.

A folder is no file system, so nobody keeps that number: its files are counted at each look, by at
most so many entries and so much time over all folders. What is beyond that is unknown.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import Optional

from .probes import OPEN_FOLDER, unless_gone

MOST_ENTRIES, MOST_SECONDS, DEEPEST = 20_000, 0.3, 64


class TooMuch(Exception):
    """More than is counted."""


class Counting:
    """The budget of one look, for all folders together."""

    def __init__(self) -> None:
        self._left, self._until = MOST_ENTRIES, time.monotonic() + MOST_SECONDS

    def used(self, path: str) -> Optional[int]:
        """Bytes on the disk, below `path` and on its file system; None if that is not known."""
        with suppress(OSError, TooMuch):
            folder = os.open(path, OPEN_FOLDER)
            try:
                return self._below(folder, os.fstat(folder).st_dev, set(), DEEPEST)
            finally:
                os.close(folder)
        return None

    def _below(self, folder: int, device: int, linked: set[int], deep: int) -> int:
        total = 0
        with os.scandir(folder) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0 or deep < 0 or time.monotonic() > self._until:
                    raise TooMuch
                with unless_gone():
                    found = entry.stat(follow_symlinks=False)
                    if found.st_dev != device or found.st_ino in linked:
                        continue
                    total += found.st_blocks * 512
                    if stat.S_ISDIR(found.st_mode):
                        inner = os.open(entry.name, OPEN_FOLDER, dir_fd=folder)
                        try:
                            total += self._below(inner, device, linked, deep - 1)
                        finally:
                            os.close(inner)
                    elif found.st_nlink > 1:
                        linked.add(found.st_ino)
        return total
