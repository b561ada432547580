"""A private checkout: the files of one commit in a folder of their own, byte for byte.

The repository is read and never written to: the folder has a repository of its own that borrows
the objects of the other one. So whatever asks git there is told of that commit, its history
included. No hook, no filter and no setting of the other repository has a part in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path

from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.settings import Settings
from reconciler.specs.git import git
from reconciler.specs.git.blobs import contents
from reconciler.specs.git.folder import shallow
from reconciler.specs.git.head import LINK, SUBMODULE
from reconciler.specs.git.trees import spec_tree
from reconciler.specs.read.library import SETTINGS_FILE, SIZE_LIMIT, read_file, read_settings
from reconciler.specs.settings import parse_settings

LARGEST_BESIDE = 4 << 20
"""A file that is no spec and is larger is none that a spec could name."""

MOST_BYTES = 1 << 30
AT_ONCE = 500
UNSHALLOW = "git fetch --unshallow; in CI, check out the whole history"


def commit_of(settings: Settings, revision: str) -> str:
    """The commit that a revision names in the fleet's repository.

    Raises ProblemError `revision_unknown`, and `no_commit` where git does not answer.
    """
    top = git.repository(settings)
    if top is None:
        raise _unknown(revision, "there is no repository here", "make one: git init")
    if not revision or revision.startswith("-") or not revision.isprintable():
        raise _unknown(revision, "that is no name of a revision", "as in origin/main, or a commit")
    # By its input, where nothing is an option.
    said = git.ask(settings, "cat-file", "--batch-check", stdin=f"{revision}^{{commit}}\n")
    words = said.split()
    if len(words) == 3 and words[1] == "commit":
        return words[0]
    if shallow(top):
        hint = f"this clone is shallow: {UNSHALLOW}"
        raise _unknown(revision, "this clone has no such commit", hint)
    raise _unknown(
        revision,
        "this repository has no such commit",
        "fetch it, as by: git fetch origin; to see what there is: git branch --all",
    )


def commit_at(settings: Settings, moment: datetime) -> str:
    """The last commit before a moment, of those that the branch in hand was made of one by one.

    Raises ProblemError `revision_unknown`.
    """
    words = ("rev-list", "--max-count=1", "--first-parent", f"--before={format_moment(moment)}")
    found = git.ask(settings, *words, commit_of(settings, "HEAD")).strip()
    if found:
        return found
    why, top = "this branch has no commit from before that", git.repository(settings)
    if top is not None and shallow(top):
        raise _unknown(format_moment(moment), why, f"this clone is shallow: {UNSHALLOW}")
    raise _unknown(format_moment(moment), why, "see what it has: git log --first-parent")


def insist_on_ancestor(settings: Settings, commit: str) -> None:
    """Raises ProblemError `revision_elsewhere` for one that does not lead to the commit in hand."""
    if git.ask(settings, "rev-list", "--max-count=1", commit, "^HEAD").strip():
        raise refuse(
            "revision_elsewhere",
            f"commit {commit[:7]} does not lead to the one in hand",
            "name one of this branch: git log; what another one has is merged, or taken by hand",
        )


def files_of(settings: Settings) -> dict[str, bytes]:
    """Every regular file below the spec root of a private checkout, but those of submodules."""
    found: dict[str, bytes] = {}
    waiting = [Path(settings.folder, settings.spec_root)]
    while waiting:
        folder = waiting.pop()
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_symlink():
                continue
            if path.is_dir():
                waiting += [] if (path / ".git").exists() else [path]
            else:
                name = path.relative_to(settings.folder).as_posix()
                # One whose name no listing could show is no spec.
                if name.isprintable():
                    found[name] = read_file(name, str(path))
    return found


def commits_without(settings: Settings, commit: str) -> int:
    """How many commits lead to `commit` and not to the one in hand; 0 where nobody can say."""
    with suppress(ProblemError, ValueError):
        return int(git.ask(settings, "rev-list", "--count", f"HEAD..{commit}"))
    return 0


def place_of(settings: Settings) -> str:
    """The fleet's folder as seen from the top of its repository, with a slash; empty at the top."""
    top = git.repository(settings)
    inner = Path(settings.folder).relative_to(top).as_posix() if top else "."
    return "" if inner == "." else f"{inner}/"


def check_out(settings: Settings, commit: str, folder: Path, schema: str) -> Settings:
    """Lay out the fleet in an empty `folder` as `commit` has it; its settings there.

    Raises ProblemError: `revision_unreadable` for what cannot be laid out, and what is wrong with
    the settings that it has.
    """
    tree = spec_tree(settings)
    if tree is None or tree.top != git.repository(settings):
        raise _unreadable(
            commit,
            f"its specs lie in a repository of their own, of which {commit[:7]} says nothing",
            "go to the fleet that lies in one repository with its specs",
        )
    laying = _Laying(settings=settings, prefix=place_of(settings))
    try:
        laying.lay(Path(settings.folder), commit, folder)
    except OSError as error:
        hint = f"make room in {folder.parent}, or name another place: TMPDIR"
        raise _unreadable(commit, error.strerror or str(error), hint) from error
    fleet = folder / laying.prefix
    place = fleet / SETTINGS_FILE
    if not place.is_file() or place.is_symlink():
        raise refuse(
            "settings_missing",
            f"{laying.prefix}{SETTINGS_FILE} is not in commit {commit[:7]}: there was no fleet",
            "name a revision that has the fleet",
        )
    try:
        return parse_settings(fleet.resolve(), read_settings(fleet), schema)
    except ProblemError as error:
        (first, *_) = error.problems
        raise refuse(
            first.code,
            f"in commit {commit[:7]}: {first.message}",
            first.hint,
            source=first.source,
        ) from error


ODD = ("", ".", "..")


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    mode: str
    blob: str
    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Laying:
    """Lays out one repository after the other: that of the fleet, then its submodules."""

    settings: Settings
    prefix: str

    def lay(self, source: Path, commit: str, folder: Path, prefix: str | None = None) -> None:
        """What `commit` has below the prefix, of the repository that `source` lies in."""
        self._borrow(source, commit, folder)
        ask = partial(git.ask, self.settings, folder=str(folder))
        inner = self.prefix if prefix is None else prefix
        files = list(_files(ask("ls-tree", "-r", "-l", "-z", "HEAD", "--", *filter(None, [inner]))))
        wanted = [one for one in files if one.mode not in (LINK, SUBMODULE) and self._is_read(one)]
        if sum(one.size for one in wanted) > MOST_BYTES:
            raise _unreadable(commit, f"it has more than {MOST_BYTES >> 20} MiB", "")
        for one, content in _read(ask, wanted):
            _write(folder / one.path, content, 0o700 if one.mode == "100755" else 0o600)
        for one in (one for one in files if one.mode == SUBMODULE):
            there, place = source / one.path.removeprefix(inner), folder / one.path
            if (there / ".git").exists():
                # What of it cannot be laid out is missing there, and said where it is looked for.
                with suppress(ProblemError):
                    place.mkdir(parents=True)
                    self.lay(there, one.blob, place, "")
        # Links come last, so that nothing is ever written through one.
        for one, content in _read(ask, [one for one in files if one.mode == LINK]):
            _link(folder / one.path, content)
        # So that git compares each file once; what was left out is nothing that anybody reads.
        with suppress(ProblemError):
            ask("update-index", "-q", "--refresh")

    def _borrow(self, source: Path, commit: str, folder: Path) -> None:
        """A repository with that commit in hand and all objects of the one at `source`."""
        here = partial(git.ask, self.settings, folder=str(source))
        objects = os.path.join(source, here("rev-parse", "--git-path", "objects").rstrip("\n"))
        form = here("rev-parse", "--show-object-format").strip()
        if "\n" in objects:
            raise _unreadable(commit, "the name of its repository has several lines", "rename it")
        ask = partial(git.ask, self.settings, folder=str(folder))
        ask("init", "--quiet", "--template=", f"--object-format={form}", ".")
        own = folder / ".git"
        (own / "objects" / "info").mkdir(exist_ok=True)
        (own / "objects" / "info" / "alternates").write_text(f"{os.path.realpath(objects)}\n")
        top = git.repository_of(source)
        if top is not None and (ends := shallow(top)):
            (own / "shallow").write_text("".join(f"{end}\n" for end in sorted(ends)))
        ask("update-ref", "--no-deref", "HEAD", commit)
        ask("read-tree", "HEAD")

    def _is_read(self, one: _File) -> bool:
        return one.size <= (SIZE_LIMIT if one.path.endswith((".yaml", ".yml")) else LARGEST_BESIDE)


def _files(said: str) -> Iterator[_File]:
    """Those that a tree may have: one that was made by hand may name any place."""
    for line in said.split("\0"):
        about, _, path = line.partition("\t")
        if line and all(part not in ODD and part.lower() != ".git" for part in path.split("/")):
            mode, _, blob, size = about.split()
            yield _File(mode=mode, blob=blob, path=path, size=int(size) if size != "-" else 0)


def _read(ask: Callable[..., str], files: Sequence[_File]) -> Iterator[tuple[_File, bytes]]:
    rest = iter(files)
    while some := list(islice(rest, AT_ONCE)):
        names = [one.blob for one in some]
        said = ask("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names))
        answered = contents(said.encode("utf-8", "surrogateescape"), names)
        for one, (_, content) in zip(some, answered, strict=True):
            if content is None:
                raise _unreadable(
                    one.blob, f"{one.path}: git has no such object", "fetch all of its objects"
                )
            yield one, content


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as f:
        f.write(content)


def _link(path: Path, target: bytes) -> None:
    """One whose target can be none, or whose place is taken, is left out."""
    with suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, path)


def _unknown(revision: str, why: str, hint: str) -> ProblemError:
    return refuse("revision_unknown", f"{revision}: {why}", hint)


def _unreadable(commit: str, why: str, hint: str) -> ProblemError:
    return refuse("revision_unreadable", f"commit {commit[:7]}: {why}", hint)
