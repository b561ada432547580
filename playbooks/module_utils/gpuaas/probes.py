"""Probes: how a host is asked about itself, and what follows when a question is not answered.

A probe that fails makes its fact unknown and says so; it never makes it empty.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Optional, TypeVar

from .digests import sha256
from .program_output import ERR, OUT, Late, ended, heard, leave, said_to

MAX_FILE = 8 * 1024 * 1024
MAX_TEXT = 1_000_000
MAX_SAID = 16 * 1024 * 1024
MAX_NAMED, MAX_WORDS = 50, 1000
MAX_SECONDS = 20.0
STANDIN = "etc/gpuaas-standin"
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ESTALE})
"""How the kernel says that what was listed a moment ago is there no more."""

T = TypeVar("T")
Facts = dict[str, Any]


class ProbeError(Exception):
    """A probe that did not answer, in words."""


@contextmanager
def unless_gone() -> Iterator[None]:
    """What goes between being listed and being looked at is passed over, as if never listed."""
    try:
        yield
    except OSError as error:
        if error.errno not in GONE:
            raise


class Budget:
    """The seconds of a whole look, and of parts of it; without a look there is no end."""

    def __init__(self) -> None:
        self.until: Optional[float] = None

    def begin(self, seconds: Optional[float]) -> None:
        self.until = None if seconds is None else time.monotonic() + seconds

    def left(self, most: float) -> float:
        return most if self.until is None else min(most, self.until - time.monotonic())


BUDGET = Budget()


class Probes:
    """Runs probes below one root and keeps what went wrong with them."""

    def __init__(self, root: str, problems: Optional[list[dict[str, str]]] = None) -> None:
        self.root = root
        self.problems = [] if problems is None else problems
        self.answers: dict[str, Any] = {}

    @property
    def whole_host(self) -> bool:
        """Whether accounts, sessions and processes are this root's own, and ours to see."""
        return self.root == "/" and os.geteuid() == 0

    @property
    def hardware(self) -> Probes:
        """Where the machine's devices are read: in a test lab, a labelled tree of its own."""
        tree = self.at(STANDIN, "root")
        return Probes(tree, self.problems) if os.path.isdir(tree) else self

    def at(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def text(self, *parts: str) -> str:
        """Raises ProbeError where there is more than a file of this sort ever holds."""
        with open(self.at(*parts), encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_TEXT + 1)
        if len(text) > MAX_TEXT:
            raise ProbeError(f"/{'/'.join(parts)}: more than can be read")
        return text

    def note(self, probe: str, message: str) -> None:
        self.problems.append({"probe": probe, "message": printable(message)[:300]})

    def ask(self, probe: str, read: Callable[[Probes], T]) -> Optional[T]:
        """The probe's answer, or None and a note."""
        try:
            return read(self)
        except OSError as error:
            self.note(probe, f"{error.filename}: {error.strerror}")
        except (ProbeError, ValueError) as error:
            self.note(probe, str(error))
        return None

    def once(self, name: str, read: Callable[[Probes], T]) -> T:
        """What `read` answers, asked once in a look; a failure stays one."""
        if name not in self.answers:
            try:
                self.answers[name] = read(self)
            except (OSError, ProbeError, ValueError) as error:
                self.answers[name] = error
        found = self.answers[name]
        if isinstance(found, Exception):
            raise found
        answer: T = found
        return answer

    def words(self, readers: Mapping[str, Callable[[Probes], dict[str, str]]]) -> dict[str, str]:
        """Named facts `<word> <name>`, from a reader of name → fact for each word.

        Only a word that was listed has the fact `<word> *`; of any other, nothing is absent.
        """
        facts: dict[str, str] = {}
        for word, read in readers.items():
            found = self.ask(word, read)
            if found is not None:
                facts[f"{word} *"] = "listed"
                facts.update((f"{word} {name}", fact) for name, fact in found.items())
        return facts


def call(
    program: str, *arguments: str, given: str = "", seconds: Optional[float] = None
) -> subprocess.CompletedProcess[str]:
    """A tool of the host, however it ends; raises ProbeError if it is not there or does not end."""
    found = found_in_path(program)
    name = os.path.basename(program)
    if found is None:
        raise ProbeError(f"{name} is not there")
    allowed = BUDGET.left(MAX_SECONDS if seconds is None else seconds)
    if allowed <= 0:
        raise ProbeError(f"{name} was not asked: the time of this look was up")
    given_to = said_to(given)
    try:
        process = subprocess.Popen(
            [found, *arguments],
            stdin=subprocess.DEVNULL if given_to is None else given_to,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": SAFE_PATH, "LC_ALL": "C"},
        )
    finally:
        if given_to is not None:
            os.close(given_to)
    try:
        return _completed(process, name, time.monotonic() + allowed)
    except Late:
        raise ProbeError(f"{name} did not answer within {allowed:.3g} s") from None
    finally:
        leave(process)


def _completed(
    process: "subprocess.Popen[bytes]", name: str, until: float
) -> "subprocess.CompletedProcess[str]":
    """Raises Late, and ProbeError where it says more than there is room for."""
    said: dict[str, list[bytes]] = {OUT: [], ERR: []}
    size = 0
    for where, chunk in heard(process, until):
        size += len(chunk)
        if size > MAX_SAID:
            raise ProbeError(f"{name} says more than {MAX_SAID >> 20} MiB")
        said[where].append(chunk)
    code = ended(process, until)
    out, err = (b"".join(said[where]).decode("utf-8", "replace") for where in (OUT, ERR))
    return subprocess.CompletedProcess(process.args, code, lined(out), lined(err))


def lined(text: str) -> str:
    """As files of text are read, whichever end their lines have."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def found_in_path(program: str) -> Optional[str]:
    """As `shutil.which`, whose import takes longer than most probes do."""
    places = [os.path.join(folder, program) for folder in SAFE_PATH.split(":")]
    return next((p for p in places if os.path.isfile(p) and os.access(p, os.X_OK)), None)


def lines_of(program: str, *arguments: str, given: str = "") -> list[str]:
    """What a tool says that succeeds; raises ProbeError with its own words if it does not."""
    done = call(program, *arguments, given=given)
    if done.returncode != 0:
        raise ProbeError(failure(program, done))
    return done.stdout.splitlines()


def failure(program: str, done: subprocess.CompletedProcess[str]) -> str:
    said = " ".join((done.stdout + " " + done.stderr).split())
    return f"{os.path.basename(program)} ended with {done.returncode}: {said}"


def path_fact(folder: int, name: str) -> str:
    """`dir 0700`, `file 0644 sha256:…`, `link <target>`; raises FileNotFoundError.

    The owner follows as ` 20000:20001` where it is not whoever looks.
    """
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    owner = owner_suffix(status.st_uid, status.st_gid)
    if stat.S_ISDIR(status.st_mode):
        return f"dir {mode}{owner}"
    if stat.S_ISLNK(status.st_mode):
        return f"link {printable(os.readlink(name, dir_fd=folder))}{owner}"
    if not stat.S_ISREG(status.st_mode):
        return f"other {mode}{owner}"
    if status.st_size > MAX_FILE:
        return f"file {mode} size:{status.st_size}{owner}"
    with open(name, "rb", opener=opener(folder)) as file:
        return f"file {mode} sha256:{sha256(file.read(MAX_FILE)).hexdigest()}{owner}"


def opener(folder: Optional[int] = None) -> Callable[[str, int], int]:
    """For `open(…, opener=opener(folder))`, of what may turn out to be no file.

    By an opener and not by a number: of a folder that is opened so, Python leaves a number open.
    """
    return lambda name, flags: os.open(name, OPEN_FILE, dir_fd=folder)


def owner_suffix(uid: int, gid: int) -> str:
    return "" if (uid, gid) == (os.geteuid(), os.getegid()) else f" {uid}:{gid}"


def shortened(found: list[str]) -> list[str]:
    """As much as an answer has room for, whatever somebody has left lying about."""
    more = len(found) - MAX_NAMED
    some = [one[:MAX_WORDS] for one in found[:MAX_NAMED]]
    return some if more <= 0 else [*some, f"and {more} more"]


def open_below(root: str, place: str) -> Optional[int]:
    """A folder below the root without following a link; None if it is not there."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in place.split("/"):
        try:
            inner = os.open(part, OPEN_FOLDER, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ProbeError(f"/{place}: {part} is no folder: {error.strerror}") from error
        finally:
            os.close(folder)
        folder = inner
    return folder


def printable(text: str) -> str:
    """Odd bytes, control characters and backslashes as escapes, so that names are plain text."""
    text = text.replace("\\", "\\\\")
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Halves of characters, as no name of a file has them but JSON may.
        data = text.encode("utf-8", "backslashreplace")
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
