"""The only reader of files: which there are, what they hold, and the commit they are from.

File names are relative to the fleet's folder. What cannot be read is broken, never missing; what
a link shows from elsewhere is never read, so no message can repeat it.
"""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import field
from functools import cache
from hashlib import sha256
from pathlib import Path

from reconciler.model.problem import Problem, Severity, Source, refuse
from reconciler.model.records import dataclass
from reconciler.model.settings import Settings
from reconciler.model.spec.document import FileStamp
from reconciler.model.spec.revision import Revision
from reconciler.specs.git import git, history
from reconciler.specs.git.folder import stamp, under_way
from reconciler.specs.git.trees import spec_tree
from reconciler.specs.read.leftovers import is_leftover, is_misnamed

SETTINGS_FILE = "gpuaas.yaml"
SAFE_FOLDERS = "GPUAAS_SAFE_DIRECTORY"
"""In the environment: folders of other owners whose settings are followed all the same."""

ENDINGS = (".yaml", ".yml")
SIZE_LIMIT = 64 << 20
UNSETTLED_NS = 2_000_000_000
"""A file written this recently may be written again without its times showing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFile:
    """`path` is absolute and without links; `stamp` is what stat said of it."""

    name: str
    path: str
    stamp: FileStamp


@dataclass(slots=True, kw_only=True)
class Listing:
    """What a walk found. `broken` names files, and folders with all that lies below them.

    Not `whole`: a part of the fleet, or something beside it.
    """

    whole: bool = True
    files: list[SpecFile] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, name: str, code: str, message: str, hint: str) -> None:
        self.broken.add(name)
        source = Source(file=name, line=1, column=1)
        self.problems.append(Problem(code=code, message=message, hint=hint, source=source))

    def pass_over(self, name: str) -> None:
        """A file that is not read and looks as if it should be."""
        self.ignored.add(name)
        problem = Problem(
            code="file_ignored",
            message="it is not read: its name ends neither in .yaml nor in .yml",
            hint="rename it, or move it out of the spec root",
            source=Source(file=name, line=1, column=1),
            severity=Severity.WARNING,
        )
        self.problems.append(problem)


def is_spec(path: str) -> bool:
    """Whether the walk below the spec root would read a file at this path of it."""
    *folders, name = path.split("/")
    passed = any(one.startswith(".") or one.endswith(ENDINGS) for one in folders)
    return name.endswith(ENDINGS) and not name.startswith(".") and not passed


def find_folder(start: Path) -> Path:
    """The nearest folder with a gpuaas.yaml, from `start` upwards.

    Raises ProblemError `settings_missing`, and `settings_foreign` where it is somebody else's.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / SETTINGS_FILE).is_file():
            _check_name(folder)
            _check_owner(folder)
            return folder
    raise refuse(
        "settings_missing",
        f"there is no {SETTINGS_FILE} in {start} or above it",
        "go to the folder of your fleet, or make one: gpuaas init; users need none: --from DIR|URL",
    )


def _check_name(folder: Path) -> None:
    """It ends up in texts of all sorts, which are UTF-8."""
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise refuse(
            "settings_missing",
            f"the name of the fleet's folder is no UTF-8: {str(folder)!r}",
            "rename it, or move the fleet to another one",
        ) from error


def _check_owner(folder: Path) -> None:
    """Settings say which hosts are worked on, as whom and by which specs: nobody else's do so.

    As git has it, those of the caller, of root, and under sudo those of who called it are trusted;
    a folder of another owner is where the caller's own environment names it.
    """
    named = os.environ.get(SAFE_FOLDERS, "").split(os.pathsep)
    if "*" in named or any(os.path.isabs(one) and Path(one).resolve() == folder for one in named):
        return
    trusted = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isascii() and caller.isdecimal():
        trusted.add(int(caller))
    for path in (folder, folder / SETTINGS_FILE):
        owner = path.lstat().st_uid
        if owner not in trusted:
            raise refuse(
                "settings_foreign",
                f"{path} belongs to uid {owner}, who is neither you nor root",
                f"if you trust them: export {SAFE_FOLDERS}={shlex.quote(str(folder))}",
            )


def read_settings(folder: Path) -> bytes:
    """The text of the settings; raises ProblemError if it cannot be read."""
    return read_file(SETTINGS_FILE, str(folder / SETTINGS_FILE))


def has_own_root(settings: Settings) -> bool:
    """Whether the spec root lies in the fleet's folder, links resolved."""
    folder = Path(settings.folder)
    return (folder / settings.spec_root).resolve().is_relative_to(folder)


def list_specs(settings: Settings) -> Listing:
    """Every spec file below the spec root; raises ProblemError if that cannot be listed."""
    root, listing = str(Path(settings.folder, settings.spec_root)), Listing()
    try:
        os.scandir(root).close()
    except OSError as error:
        raise refuse(
            "spec_root_missing",
            f"the spec root {settings.spec_root} cannot be listed: {error.strerror}",
            "bring it back, or name it as specRoot in gpuaas.yaml; nothing counts as removed",
        ) from error
    _Walk(os.path.realpath(root), listing).folder(root, settings.spec_root.rstrip("/"))
    return listing


def list_paths(settings: Settings, paths: Sequence[Path]) -> Listing:
    """The spec files at or below `paths`, which may lie anywhere."""
    listing = Listing(whole=False)
    for path in paths:
        name, is_folder = file_name(settings, path), path.is_dir()
        walk = _Walk(str((path if is_folder else path.parent).resolve()), listing)
        walk.folder(str(path), name) if is_folder else walk.link(str(path), name)
    return listing


def file_name(settings: Settings, path: Path) -> str:
    """How a path is called in problems and resources."""
    absolute, folder = Path(os.path.abspath(path)), settings.folder
    return str(absolute.relative_to(folder) if absolute.is_relative_to(folder) else absolute)


class _Walk:
    """One walk below one root. No link leads it out of the root, or round in circles."""

    __slots__ = ("listing", "root", "waiting")

    def __init__(self, root: str, listing: Listing) -> None:
        self.root, self.listing = root, listing
        self.waiting: list[tuple[str, str]] = []

    def folder(self, path: str, name: str) -> None:
        self.waiting.append((path, name))
        while self.waiting:
            path, name = self.waiting.pop()
            try:
                entries = list(os.scandir(path))
            except OSError as error:
                self.unreadable(name, error)
                continue
            for entry in entries:
                inner = f"{name}/{entry.name}"
                try:
                    self.entry(entry, inner)
                except OSError as error:
                    self.unreadable(inner, error)

    def entry(self, entry: os.DirEntry[str], name: str) -> None:
        if not entry.name.isprintable():
            shown = name.encode("unicode_escape", "surrogateescape").decode("ascii", "replace")
            hint = "rename it, with letters and digits"
            self.listing.refuse(shown, "file_unreadable", "its name holds strange bytes", hint)
        elif entry.name.startswith("."):
            self.leftover(entry, name)
        elif entry.name.endswith(ENDINGS):
            if entry.is_symlink():
                self.link(entry.path, name)
            else:
                self.file(entry.path, name, entry.stat(follow_symlinks=False))
        elif entry.is_dir(follow_symlinks=False):
            self.waiting.append((entry.path, name))
        elif not (entry.is_symlink() and self.is_linked_folder(entry.path, name)):
            self.leftover(entry, name)

    def leftover(self, entry: os.DirEntry[str], name: str) -> None:
        if is_misnamed(entry.name):
            self.listing.pass_over(name)
        elif is_leftover(entry.name):
            self.listing.ignored.add(name)

    def file(self, path: str, name: str, found: os.stat_result) -> None:
        if stat.S_ISREG(found.st_mode):
            stamp = FileStamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            self.listing.files.append(SpecFile(name=name, path=path, stamp=stamp))
            return
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a device, pipe or socket"
        self.listing.refuse(
            name,
            "file_not_regular",
            f"{what} is called like a spec file; it was not opened",
            "give it a name without .yaml or .yml, or move it out of the spec root",
        )

    def link(self, path: str, name: str) -> None:
        """A spec file by whatever path: read if, links resolved, it lies below the root."""
        target = os.path.realpath(path)
        if not self.is_inside(target):
            self.outside(name)
            return
        try:
            self.file(target, name, os.stat(target))
        except OSError as error:
            self.unreadable(name, error)

    def is_linked_folder(self, path: str, name: str) -> bool:
        """A link to a folder of the tree is not followed: its files are read where they lie."""
        target = os.path.realpath(path)
        if not os.path.isdir(target):
            return False
        if not self.is_inside(target):
            self.outside(name)
        elif f"{os.path.realpath(os.path.dirname(path))}/".startswith(f"{target}/"):
            hint = "delete the link"
            self.listing.refuse(name, "file_link_loop", "a link to a folder above it", hint)
        else:
            self.listing.ignored.add(name)
        return True

    def is_inside(self, target: str) -> bool:
        return target == self.root or target.startswith(f"{self.root}/")

    def outside(self, name: str) -> None:
        self.listing.refuse(
            name,
            "file_outside_tree",
            "a link that leads out of the spec tree; it was not read",
            "put the file itself here",
        )

    def unreadable(self, name: str, error: OSError) -> None:
        message = f"it cannot be read: {error.strerror}"
        hint = "make it readable; what was last applied from it stays as it is"
        self.listing.refuse(name, "file_unreadable", message, hint)


def read_file(name: str, path: str) -> bytes:
    """The content of a regular file; raises ProblemError. Never follows a link, never blocks."""
    reason = "it is no regular file, or larger than any spec"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)
            if stat.S_ISREG(found.st_mode) and found.st_size <= SIZE_LIMIT:
                return _read_all(handle, found.st_size)
        finally:
            os.close(handle)
    except OSError as error:
        reason = error.strerror or str(error)
    raise refuse(
        "file_unreadable",
        f"it cannot be read: {reason}",
        "make it readable; what was last applied from it stays as it is",
        source=Source(file=name, line=1, column=1),
    )


def read_spec(settings: Settings, name: str) -> bytes:
    """A file by the name that problems have for it, never from elsewhere; raises ProblemError."""
    return read_file(name, spec_path(settings, name))


def spec_path(settings: Settings, name: str) -> str:
    """Where a file lies, links resolved; raises ProblemError for one that leads out of its place.

    The place of a spec is the spec root; that of any other file is its folder.
    """
    below_root = name.startswith(f"{settings.spec_root.rstrip('/')}/")
    place = settings.spec_root if below_root else os.path.dirname(name)
    root = os.path.realpath(os.path.join(settings.folder, place))
    path = os.path.realpath(os.path.join(settings.folder, name))
    if not path.startswith(f"{root}/"):
        raise refuse("file_outside_tree", f"{name} leads out of its place", "put the file there")
    return path


def _read_all(handle: int, size: int) -> bytes:
    content = os.read(handle, size + 1)
    if len(content) == size:
        return content
    parts = [content]
    while parts[-1]:
        parts.append(os.read(handle, 1 << 20))
    return b"".join(parts)


def is_settled(stamp: FileStamp) -> bool:
    """Whether an equal stamp will prove equal content: the file was not written just now."""
    return time.time_ns() - max(stamp.mtime_ns, stamp.ctime_ns) > UNSETTLED_NS


@cache
def program_digest() -> str:
    """Digest of the code that decides what a document means; remembered documents depend on it."""
    package = Path(__file__).parents[2]
    sources = [
        path for room in ("model", "kinds", "specs") for path in package.glob(f"{room}/**/*.py")
    ]
    return sha256(b"\0".join(path.read_bytes() for path in sorted(sources))).hexdigest()


def revision(settings: Settings) -> Revision:
    """Where the specs stand; raises ProblemError `no_commit` if git refuses to say."""
    return work_tree(settings).revision


def work_tree(settings: Settings) -> history.WorkTree:
    """How the spec root and the settings stand; raises ProblemError `no_commit`."""
    with ExitStack() as stack:
        return asking_how_it_stands(settings, stack)()


def asking_how_it_stands(settings: Settings, stack: ExitStack) -> Callable[[], history.WorkTree]:
    """As `work_tree`, when it is called: until then, and as long as `stack` is open, git looks."""
    top = git.repository(settings)
    if top is None:
        return history.WorkTree
    prefix = Path(settings.folder).relative_to(top).as_posix()
    below = "" if prefix == "." else f"{prefix}/"
    places = (settings.spec_root, SETTINGS_FILE)
    said = stack.enter_context(git.asking(settings, *history.STATUS, *places))
    return lambda: history.read_work_tree(said(), below)


def git_at_work(settings: Settings) -> Problem | None:
    """What git is at work on in the trees of the fleet and of its specs, as long as it is."""
    for top in _tops(settings):
        found = under_way(top)
        if found is not None:
            return Problem(
                code="git_under_way",
                message=f"{found.what} is under way in {top}: files come and go until it has ended",
                hint=found.hint,
            )
    return None


def stamp_of_git(settings: Settings) -> object:
    """What is another after any command of git that changes files of these trees."""
    return [stamp(top) for top in _tops(settings)]


def _tops(settings: Settings) -> list[Path]:
    tree = spec_tree(settings)
    tops = (git.repository(settings), tree.top if tree else None)
    return sorted({top for top in tops if top is not None})
