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
_COMMIT = "//"
"""How the line of a commit starts, and no name of a file does."""
_FORM = ("--encoding=UTF-8", f"--format={_COMMIT}%H%x00%an%x00%ae")
"""Only zero bytes part its words: a name of an author may hold anything else."""
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
                branch = "" if head == _DETACHED else _text(head)
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
    for origin, name in _changes(git("log", "-z", *_NAMES, *_FORM, "--", *places)):
        if name in wanted:
            found.setdefault(name, origin)
        if len(found) == len(wanted):
            break
    signed = _signed(git, {origin.commit for origin in found.values()})
    return {name: replace(one, signed=one.commit in signed) for name, one in found.items()}


def _changes(log: str) -> Iterator[tuple[Origin, str]]:
    """Each file of each commit. The first one of a commit stands in a line of its own."""
    origin, before = Origin(), ""
    words = iter(log.split("\0"))
    for word in words:
        if word.startswith(_COMMIT):
            author, email = _text(next(words)), _text(next(words))
            origin = Origin(commit=word.removeprefix(_COMMIT), author=author, email=email)
            before = "\n"
        else:
            yield origin, word.removeprefix(before)
            before = ""


def _text(name: str) -> str:
    """What git hands on as it was written, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


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
