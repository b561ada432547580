"""What git knows of the specs, as our types; a function that runs git is passed in.

The function raises ProblemError where there is a repository and git does not answer for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from reconciler.model.records import dataclass
from reconciler.model.spec.revision import Revision

Git = Callable[..., str]
"""Runs git in the fleet's folder with these arguments, and `stdin`; its output."""

_UNBORN = "(initial)"
_DETACHED = "(detached)"
_COMMIT = "//"
"""How the line of a commit starts, and no name of a file does."""
_FORM = ("--encoding=UTF-8", f"--format={_COMMIT}%H%x00%P%x00%an%x00%ae")
"""Only zero bytes part its words: a name of an author may hold anything else."""
_RAW = ("-c", "--raw", "--no-abbrev", "--relative", "--no-renames", "--root")
_WALK = ("--topo-order", "--full-history", "--parents")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTree:
    """The commit in hand, and the names of files that are not as it has them."""

    commit: str = ""
    branch: str = ""
    changed: frozenset[str] = frozenset()

    @property
    def revision(self) -> Revision:
        return Revision(commit=self.commit, branch=self.branch, dirty=bool(self.changed))


def work_tree(git: Git, prefix: str, places: Collection[str], called: str = "") -> WorkTree:
    """How `places` stand. Files that git was told to ignore count: gpuaas reads them all the same.

    `prefix` leads from the top of the repository to the folder in which git is asked, with a slash
    if any; names of its files then begin with what it is `called`.
    """
    return read_work_tree(git(*STATUS, *places), prefix, called)


STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z"),
    *("--untracked-files=all", "--ignored=matching", "--ignore-submodules=none", "--"),
)
"""What git is asked for how places stand; their names follow."""


def read_work_tree(said: str, prefix: str, called: str = "") -> WorkTree:
    fields = iter(said.split("\0"))
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
    inside = {called + name.removeprefix(prefix) for name in changed if name.startswith(prefix)}
    return WorkTree(commit=commit, branch=branch, changed=frozenset(inside))


def entries(git: Git, commit: str) -> Iterator[tuple[str, str, str]]:
    """Mode, id and path of all that a commit has below the folder in which git is asked."""
    for line in git("ls-tree", "-r", "-z", commit).split("\0"):
        if line:
            about, _, path = line.partition("\t")
            mode, _, blob = about.split(" ")
            yield mode, blob, path


def tags(git: Git, *places: str) -> Mapping[str, str]:
    """Paths that git does not look at in the folder: `S` skip-worktree, `H` assume-unchanged."""
    return read_tags(git(*TAGS, *places))


TAGS = ("ls-files", "-v", "-z", "--")


def read_tags(said: str) -> Mapping[str, str]:
    """Mostly there are none, which is quickly seen: each line begins with the same letter."""
    if f"\0{said}".count("\0H ") == said.count("\0"):
        return {}
    lines = said.split("\0")
    return {
        line[2:]: "S" if line[0] in "Ss" else "H"
        for line in lines
        if line and (line[0] == "S" or line[0].islower())
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One of a log; its `parents` are those that the log has."""

    id: str
    parents: tuple[str, ...]
    author: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A file as a commit left it, and as each parent had it; by blob, empty where it was not.

    `number` is the place of the commit in its log.
    """

    number: int
    blob: str
    before: tuple[str, ...]


class Log:
    """The commits that touched some files, newest first, and all merges among them."""

    def __init__(self, said: str) -> None:
        self.commits: list[Commit] = []
        self.touched: dict[str, list[Touch]] = {}
        self._read(said)
        self._numbers = {commit.id: at for at, commit in enumerate(self.commits)}
        self._older: dict[int, int] = {}
        self.linear = all(len(commit.parents) < 2 for commit in self.commits)

    def number(self, commit: str) -> int:
        """Its place; one after all others where the log has it not."""
        return self._numbers.get(commit, len(self.commits))

    def is_older(self, number: int, than: int) -> bool:
        """Whether one commit came before another on some way to it."""
        if self.linear or than >= len(self.commits):
            return number > than
        return bool(self._mask(than) >> number & 1)

    def _mask(self, number: int) -> int:
        """A bit for each commit that this one came from."""
        found = self._older.get(number)
        if found is None:
            found, waiting = 0, [number]
            while waiting:
                for parent in self.commits[waiting.pop()].parents:
                    at = self._numbers.get(parent)
                    if at is not None and not found >> at & 1:
                        found |= self._older.get(at, 0) | 1 << at
                        waiting.append(at)
            self._older[number] = found
        return found

    def _read(self, said: str) -> None:
        words = iter(said.split("\0"))
        for word in words:
            if word.startswith(_COMMIT):
                parents, author, email = next(words), _text(next(words)), _text(next(words))
                self.commits.append(
                    Commit(
                        id=word.removeprefix(_COMMIT),
                        parents=tuple(parents.split()),
                        author=author,
                        email=email,
                    )
                )
            elif word.strip("\n"):
                self._touch(word.lstrip("\n"), next(words))

    def _touch(self, raw: str, name: str) -> None:
        """`:100644 100644 OLD NEW M`; of a merge, one mode and one blob more for each parent."""
        parents = len(raw) - len(raw.lstrip(":"))
        blobs = [_blob(word) for word in raw.split(" ")[parents + 1 : -1]]
        touch = Touch(number=len(self.commits) - 1, blob=blobs[-1], before=tuple(blobs[:-1]))
        self.touched.setdefault(name, []).append(touch)


def read_log(git: Git, places: Iterable[str]) -> Log:
    """All commits that touched `places`, on every side of every merge."""
    return Log(git("log", "-z", *_WALK, *_RAW, *_FORM, "--", *places))


def read_commits(git: Git, commits: Iterable[str]) -> Log:
    """Some commits by themselves, with every file that each touched."""
    words = ("--no-walk=unsorted", "--stdin")
    return Log(git("log", "-z", *words, *_RAW, *_FORM, stdin="\n".join(sorted(commits))))


def _blob(word: str) -> str:
    return word if word.strip("0") else ""


def _text(name: str) -> str:
    """What git hands on as it was written, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def signed(git: Git, commits: Collection[str]) -> frozenset[str]:
    """The commits with a signature that git could verify and whose key is trusted here."""
    if not commits:
        return frozenset()
    answer = git(
        "log", "--no-walk=unsorted", "--format=%H %G?", "--stdin", stdin="\n".join(sorted(commits))
    )
    return frozenset(line.split()[0] for line in answer.splitlines() if line.endswith(" G"))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))
