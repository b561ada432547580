"""Where on a host an allocation may be worked on, and how to get there without being led away.

Names are judged again here, whatever was judged before; no link is followed below the root.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Iterator, Optional

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ALLOCATION_ID = re.compile(r"[a-z2-7]{10}")
LOGIN = re.compile(r"[a-z][a-z0-9-]{0,26}-[a-z2-7]{4}")


class Refusal(Exception):
    """Why something was not done, with a stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Tree:
    """One root folder, open for one item. In a dry run nothing is written, only `changed` set."""

    def __init__(self, root: int, dry: bool) -> None:
        self.root = root
        self.dry = dry
        self.changed = False


class Places:
    """The only paths that belong to an allocation, by the verb that keeps them."""

    def __init__(self, allocation: str, login: str) -> None:
        if not ALLOCATION_ID.fullmatch(allocation):
            raise Refusal("item_invalid", f"no allocation id: {allocation!r}")
        if not LOGIN.fullmatch(login):
            raise Refusal("item_invalid", f"no login: {login!r}")
        self.folders = (f"/home/{login}", f"/var/lib/gpuaas/scratch/{allocation}")
        self.files = (
            f"/etc/gpuaas/allocations/{allocation}.json",
            f"/etc/gpuaas/runtime/allocations/{allocation}.env",
        )
        self.keys = (f"/etc/gpuaas/ssh/{login}",)


def owned(path: str, places: tuple[str, ...]) -> str:
    """`path`, if it is one of these places to the letter."""
    if path not in places:
        raise Refusal("path_unsafe", f"{path!r} is no place of this allocation")
    return path


@contextmanager
def parent_of(tree: Tree, path: str, *, make: bool) -> Iterator[Optional[tuple[int, str]]]:
    """The open folder that holds `path`, and its name in there; None if the folder is not there.

    With `make`, missing folders on the way are made, open to read for all.
    """
    *way, name = path.lstrip("/").split("/")
    opened = [os.dup(tree.root)]
    try:
        for part in way:
            inner = _enter(opened[-1], part, path, make and not tree.dry)
            if inner is None:
                break
            opened.append(inner)
        yield (opened[-1], name) if len(opened) > len(way) else None
    finally:
        for folder in opened:
            os.close(folder)


def _enter(folder: int, part: str, path: str, make: bool) -> Optional[int]:
    try:
        return os.open(part, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            return None
    except OSError as error:
        raise Refusal(
            "path_unsafe", f"{path}: {part} cannot be entered: {error.strerror}"
        ) from error
    os.mkdir(part, 0o755, dir_fd=folder)
    made = os.open(part, FOLDER, dir_fd=folder)
    os.fchmod(made, 0o755)
    return made
