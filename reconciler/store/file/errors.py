"""Errors of SQLite and the disk as problems: each a clear refusal with a next step."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.model.problem import ProblemError, refuse

RECOVER = (
    "keep the file; then `gpuaas state restore FILE` from a backup. Without one: move it away, and"
    " `gpuaas state rebuild`"
)
FOREIGN_LOCK = "no gpuaas does that: end whatever else has the file open, then run it again"
LOST_OR_NEW = (
    "lost? `gpuaas state restore latest`, or a FILE, else `gpuaas state rebuild`. "
    "A new fleet? `gpuaas state init --new`"
)
FREE_SPACE = "nothing was changed by this; free some space and run the command again"

_BY_ERROR_NAME: tuple[tuple[str, str, str, str], ...] = (
    ("SQLITE_FULL", "state_disk_full", "no space left while saving", FREE_SPACE),
    ("SQLITE_IOERR_WRITE", "state_disk_full", "the disk takes no more data", FREE_SPACE),
    ("SQLITE_IOERR_SHM", "state_disk_full", "the disk takes no more data", FREE_SPACE),
    ("SQLITE_IOERR_TRUNCATE", "state_disk_full", "the disk takes no more data", FREE_SPACE),
    ("SQLITE_IOERR_FSYNC", "state_disk_full", "the disk does not keep what is written", FREE_SPACE),
    ("SQLITE_READONLY", "state_read_only", "may only be read", "ask whoever owns the state"),
    ("SQLITE_PERM", "state_read_only", "may only be read", "ask whoever owns the state"),
    ("SQLITE_CANTOPEN", "state_read_only", "cannot be opened", "check its owner and mode"),
    ("SQLITE_BUSY", "state_locked", "another program keeps it from being used", FOREIGN_LOCK),
    ("SQLITE_PROTOCOL", "state_locked", "another program keeps it from being used", FOREIGN_LOCK),
    ("SQLITE_LOCKED", "state_locked", "another program keeps it from being used", FOREIGN_LOCK),
    ("SQLITE_CONSTRAINT", "state_guard", "refuses the change", "report this: it is a defect"),
)
"""The first row whose name is a prefix of SQLite's error name wins."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def wording(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the file system below become ProblemErrors about `path`."""
    try:
        yield
    except sqlite3.ProgrammingError:
        # Misuse of the binding is a defect of ours, and says nothing about the file.
        raise
    except sqlite3.Error as error:
        raise _sqlite_problem(error, path) from error
    except OSError as error:
        raise os_problem(error, path) from error


def damaged(path: Path, why: str) -> ProblemError:
    return refuse("state_damaged", f"{path}: {why}", RECOVER)


def os_problem(error: OSError, path: Path) -> ProblemError:
    if error.errno in _DISK_FULL:
        return refuse("state_disk_full", f"{path}: {error.strerror}", FREE_SPACE)
    if error.errno in _READ_ONLY:
        return refuse("state_read_only", f"{path}: {error.strerror}", "check its owner and mode")
    return damaged(path, str(error.strerror or error))


def _sqlite_problem(error: sqlite3.Error, path: Path) -> ProblemError:
    # Errors of the binding itself carry no name; what they mean is that a row makes no sense.
    name: str = getattr(error, "sqlite_errorname", "")
    for prefix, code, message, hint in _BY_ERROR_NAME:
        if name.startswith(prefix):
            said = "" if code == "state_locked" else f" ({error})"
            return refuse(code, f"{path}: {message}{said}", hint)
    return damaged(path, str(error))
