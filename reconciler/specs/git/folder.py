"""Git's own folder of a work tree: operations in progress, and where a shallow history ends."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from reconciler.model.formats import why_no_revision
from reconciler.model.records import dataclass
from reconciler.specs.regular_file import at_once

_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")
LONGEST = 64 * 1024
"""A file of one path, and no more of it is read."""

_UNDER_WAY = (
    ("MERGE_HEAD", "a merge", "finish it: git commit; or leave it: git merge --abort"),
    ("rebase-merge", "a rebase", "git rebase --continue, or git rebase --abort"),
    ("rebase-apply", "a rebase", "git rebase --continue, or git rebase --abort"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick --continue, or --abort"),
    ("REVERT_HEAD", "a revert", "git revert --continue, or git revert --abort"),
    ("BISECT_LOG", "a bisect", "git bisect reset"),
    ("index.lock", "a git command", "wait for it; if none is at work: rm {lock}"),
)
"""What git has in its own folder while it is at work on a tree, in words, and how that ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """Work of git on the tree that is not done: files come and go until it is."""

    what: str
    hint: str


def repository_within(folder: Path) -> Path | None:
    """What git would take for the repository that `folder` lies in, where that is not its top.

    Whoever may commit files may commit all that a bare repository consists of, with a history and
    settings of their own.
    """
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            return None
        if (place / "HEAD").exists() and all((place / n).exists() for n in ("objects", "refs")):
            return place
    return None


def under_way(top: Path) -> UnderWay | None:
    """Work of git on the tree of `top` that has begun and not ended, as its own folder shows it."""
    folder = _git_folder(top)
    for name, what, hint in _UNDER_WAY:
        if (folder / name).exists():
            return UnderWay(what=what, hint=hint.format(lock=folder / name))
    return None


_BEGAN_FROM = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
"""Where git has noted which branch it goes back to; meanwhile HEAD is at commits on the way."""


def branch_on_hold(top: Path) -> str | None:
    """The branch that a rebase or a bisect began from, which stays what it was until that ends.

    None if neither is under way, empty if it began from no branch.
    """
    folder = _git_folder(top)
    for name in _BEGAN_FROM:
        with suppress(OSError):
            began = _text(folder / name).strip().removeprefix("refs/heads/")
            return "" if why_no_revision(began) or _COMMIT.fullmatch(began) else began
    return None


def stamp(top: Path) -> tuple[object, ...]:
    """What is another after any command of git that changes the files of a tree."""
    folder = _git_folder(top)
    found: list[object] = []
    for name in ("index", "HEAD", "logs/HEAD"):
        with suppress(OSError):
            at = (folder / name).stat()
            found.append((name, at.st_mtime_ns, at.st_size, at.st_ino))
    return tuple(found)


def shallow(top: Path) -> frozenset[str]:
    """The commits at which the history ends that a shallow clone has; none in a whole one."""
    folder = _git_folder(top)
    with suppress(OSError):
        folder = folder / (folder / "commondir").read_text().strip()
    try:
        return frozenset((folder / "shallow").read_text().split())
    except OSError:
        return frozenset()


def _git_folder(top: Path) -> Path:
    """The folder of git; that of a linked work tree or a submodule is where its file `.git`
    says.
    """
    place = top / ".git"
    try:
        word, _, path = _text(place).strip().partition(": ")
    except OSError:
        return place
    return top / path if word == "gitdir" else place


def _text(path: Path) -> str:
    """The text of a regular file. Raises OSError for any other: a pipe would be waited for."""
    with open(path, "rb", opener=at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read(LONGEST).decode("utf-8", "surrogateescape")
