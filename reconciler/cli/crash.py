"""The report of an unexpected error: a file for developers, one line for the user."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path

from reconciler import __version__
from reconciler.cli.text import escape
from reconciler.model.problem import Problem

NAME, KEPT = ("gpuaas-error-", ".log"), 20
"""A loop that fails each minute must not fill the disk."""


def report(error: BaseException) -> Problem:
    """Keep the traceback in a file of the user's own; with GPUAAS_DEBUG set show it as well."""
    text = f"gpuaas {__version__}, Python {sys.version}\n" + "".join(
        traceback.format_exception(error)
    )
    if os.environ.get("GPUAAS_DEBUG") and sys.stderr is not None:
        sys.stderr.write("\n".join(map(escape, text.split("\n"))))
    kept = _keep(text)
    return Problem(
        code="internal_error",
        message=f"{type(error).__name__}: {error}",
        hint=f"please report this defect with {kept}" if kept else "GPUAAS_DEBUG=1 shows more",
    )


def _keep(text: str) -> str:
    """The file's name, readable by its owner alone; empty if there is no place for it."""
    try:
        number, name = tempfile.mkstemp(prefix=NAME[0], suffix=NAME[1])
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        _drop_old(Path(name).parent)
    except OSError:
        return ""
    return name


def _drop_old(folder: Path) -> None:
    """All of this user's but the newest."""
    found = ((path, path.lstat()) for path in folder.glob("*".join(NAME)))
    ours = [(told.st_mtime_ns, path) for path, told in found if told.st_uid == os.getuid()]
    for _, path in sorted(ours)[:-KEPT]:
        path.unlink(missing_ok=True)
