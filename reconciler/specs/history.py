"""What git knows of the specs, asked through a function that runs it: its words, made ours.

The function raises ProblemError where there is a repository and git does not answer for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.model.desired import Origin, Revision

Git = Callable[..., str]
"""Runs git in the fleet's folder with these arguments, and `stdin`; its output."""

_UNBORN = "(initial)"
_DETACHED = "(detached)"
_HEADER = "\x01"
_NAMES = ("-c", "--name-only", "--relative", "--no-renames")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTree:
    """The commit in hand, and the names of files that are not as it has them."""

    commit: str = ""
    branch: str = ""
    changed: frozenset[str] = frozenset()

    @property
    def revision(self) -> Revision:
        return Revision(commit=self.commit, branch=self.branch, dirty=bool(self.changed))


def work_tree(git: Git, prefix: str, places: Collection[str]) -> WorkTree:
    """How `places` stand. Files that git was told to ignore count: gpuaas reads them all the same.

    `prefix` leads from the top of the repository to the fleet's folder, with a slash if any.
    """
    options = ("--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignored=matching")
    fields = iter(git("status", *options, "--", *places).split("\0"))
    commit = branch = ""
    changed = set()
    for line in fields:
        match line.split(" ", 2):
            case ["#", "branch.oid", oid]:
                commit = "" if oid == _UNBORN else oid
            case ["#", "branch.head", head]:
                branch = "" if head == _DETACHED else head
            case ["?" | "!" as sort, *rest]:
                name = " ".join(rest)
                if sort == "?" or not _is_hidden(name.removeprefix(prefix)):
                    changed.add(name)
            case ["1", *_]:
                changed.add(line.split(" ", 8)[8])
            case ["u", *_]:
                changed.add(line.split(" ", 10)[10])
            case ["2", *_]:
                changed |= {line.split(" ", 9)[9], next(fields)}
    inside = {name.removeprefix(prefix) for name in changed if name.startswith(prefix)}
    return WorkTree(commit=commit, branch=branch, changed=frozenset(inside))


def origins(git: Git, files: Collection[str], places: Collection[str]) -> Mapping[str, Origin]:
    """The commit that last changed each of `files`, deleted ones too, from one look at the log."""
    found: dict[str, Origin] = {}
    wanted = frozenset(files)
    if not wanted:
        return found
    form = f"--format={_HEADER}%H%x1f%an%x1f%ae"
    for origin, names in _commits(git("log", "-z", *_NAMES, form, "--", *places)):
        for name in names:
            if name in wanted:
                found.setdefault(name, origin)
        if len(found) == len(wanted):
            break
    signed = _signed(git, {origin.commit for origin in found.values()})
    return {name: replace(one, signed=one.commit in signed) for name, one in found.items()}


def _commits(log: str) -> Iterator[tuple[Origin, list[str]]]:
    for commit in log.split(_HEADER)[1:]:
        head, *names = commit.split("\0")
        sha, author, email = head.rstrip("\n").split("\x1f")
        origin = Origin(commit=sha, author=author, email=email)
        yield origin, [name.lstrip("\n") for name in names]


def _signed(git: Git, commits: Collection[str]) -> frozenset[str]:
    """The commits with a signature that git could verify and whose key is trusted here."""
    if not commits:
        return frozenset()
    answer = git(
        "log", "--no-walk=unsorted", "--format=%H %G?", "--stdin", stdin="\n".join(sorted(commits))
    )
    return frozenset(line.split()[0] for line in answer.splitlines() if line.endswith(" G"))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))
