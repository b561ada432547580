"""Folders of runs: a fresh private one each, few kept, and a short one for what needs a socket."""

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
PREFIX = "run-"


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


def fresh_run_folder(runs: Path) -> Path:
    """A new folder of mode 0700, shared with no other run."""
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=runs))


def prune(runs: Path, keep: int) -> None:
    """Keep the newest runs, and the newest failed one however old it is."""
    newest = sorted(runs.glob(f"{PREFIX}*"), key=_changed_at, reverse=True)
    failed = next((run for run in newest if (run / FAILED).exists()), None)
    for run in newest[keep:]:
        if run != failed:
            shutil.rmtree(run, ignore_errors=True)


def _changed_at(run: Path) -> int:
    """The oldest of all if another run has just taken it away."""
    try:
        return run.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


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
