"""Folders: one for the log of each run, of which few are kept, and a short one for sockets."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from reconciler.model.problem import refuse

FAILED = "failed"
PREFIX, EARLIER, LOG = "play-", "run-", "log"


@contextmanager
def workplace() -> Iterator[None]:
    """Files of a run are made ready here, before a host is asked for anything.

    Raises ProblemError `run_folder_unusable` where the disk does not take them.
    """
    try:
        yield
    except OSError as error:
        raise refuse(
            "run_folder_unusable",
            f"{error.filename or 'a file of this run'}: {error.strerror}",
            "no host was asked for this; free some space on this machine, then: gpuaas apply",
        ) from error


def keep_log(runs: Path, log: str, *, ok: bool, keep: int) -> None:
    """The log of a run that has ended, in a folder of its own, and no more of them than wanted.

    A disk that takes no log is no reason to lose what hosts have answered.
    """
    with suppress(OSError):
        folder = _next_folder(runs)
        write_private(folder / LOG, log)
        if not ok:
            write_private(folder / FAILED)
    _prune(runs, keep)


def _next_folder(runs: Path) -> Path:
    """Numbered in the order in which runs end, whatever the clock says; shared with no other."""
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = max(map(_number, runs.iterdir()), default=0)
    while True:
        number += 1
        with suppress(FileExistsError):
            folder = runs / f"{PREFIX}{number:06}"
            folder.mkdir(mode=0o700)
            return folder


def _prune(runs: Path, keep: int) -> None:
    """Keep the newest runs, and the newest failed one however old it is."""
    names = (*runs.glob(f"{PREFIX}*"), *runs.glob(f"{EARLIER}*"))
    newest = sorted(names, key=_number, reverse=True)
    failed = next((run for run in newest if (run / FAILED).exists()), None)
    for run in newest[keep:]:
        if run != failed:
            shutil.rmtree(run, ignore_errors=True)


def _number(run: Path) -> int:
    """Those of an earlier version are the oldest."""
    number = run.name.removeprefix(PREFIX)
    return int(number) if number.isdecimal() else 0


def short_folder() -> Path:
    """A private folder with a path that leaves room for a socket's name, whatever the state's is.

    The same one each time, so that SSH masters outlive a run; where somebody else holds the name,
    or made it open to others, one of this process alone, which goes with it.
    """
    folder = Path("/tmp", f"gpuaas-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    return folder if _is_private(folder) else _folder_of_this_process()


def _is_private(folder: Path) -> bool:
    """In /tmp nobody can put another in its place."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mode == stat.S_IFDIR | 0o700


@cache
def _folder_of_this_process() -> Path:
    made = Path(tempfile.mkdtemp(prefix="gpuaas-", dir="/tmp"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def write_private(file: Path, content: str | bytes = b"") -> None:
    """A new file that nobody else can read, whatever the umask."""
    content = content.encode("utf-8") if isinstance(content, str) else content
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(content)
