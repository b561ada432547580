"""Edits of files: every commit that contributed to their present content."""

from __future__ import annotations

from collections.abc import Collection

from reconciler.model.spec.desired import Origin
from reconciler.specs.git.history import Git

FORM = "--format=%H%x00%an%x00%ae"


def read_edits(git: Git, since: str, files: Collection[str]) -> list[Origin]:
    """Who changed `files` since they were last as the commit `since` has them.

    Raises ProblemError where git does not know that commit.
    """
    words = ("log", "-z", "--full-history", "--encoding=UTF-8", FORM, f"{since}..HEAD", "--")
    told = iter(git(*words, *files).split("\0"))
    edits = [
        Origin(commit=commit, author=author, email=email)
        for commit, author, email in zip(told, told, told, strict=False)
    ]
    before, *after = _contents(git, [since, *(one.commit for one in edits)], files)
    same = next((at for at, now in enumerate(after) if now == before), len(edits))
    return edits[:same]


def _contents(git: Git, commits: Collection[str], files: Collection[str]) -> list[list[str]]:
    """What each commit has of the files, by the names that git gives to contents."""
    asked = "".join(f"{commit}:./{file}\n" for commit in commits for file in files)
    said = git("cat-file", "--batch-check=%(objectname)", stdin=asked).splitlines()
    words = [line if " " not in line else "" for line in said]
    return [words[at : at + len(files)] for at in range(0, len(words), len(files))]
