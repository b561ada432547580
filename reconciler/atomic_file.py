"""Files that are written whole or not at all: nobody ever reads half of one.

The content is brought to disk beside its place, under a name that nobody can know before, as the
folder may be one that others write to. What a failure leaves of it is removed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_file(path: Path, content: bytes, *, mode: int = 0o600, durable: bool) -> None:
    """Replace what is at `path`, and see that the content survives a power cut if `durable`."""
    with partial_file(path, content, mode=mode, durable=durable) as partial:
        os.replace(partial, path)


@contextmanager
def partial_file(
    path: Path,
    content: bytes,
    *,
    mode: int | os.stat_result = 0o600,
    durable: bool,
    name: tuple[str, str] | None = None,
) -> Iterator[Path]:
    """The content beside `path`, for whoever puts it in place by a way of their own.

    `mode` may be that of another file, whose owner it then gets as well where that is allowed.
    `name` is how its name begins and ends; what is left under it at the end is removed.
    """
    prefix, suffix = name or (f".{path.name}.", "")
    number, partial = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            _let_in(number, mode)
            if durable:
                os.fsync(number)
        yield Path(partial)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def _let_in(number: int, mode: int | os.stat_result) -> None:
    if isinstance(mode, os.stat_result):
        # Like git, a file may change hands where it lies in a folder that others share.
        with suppress(PermissionError):
            os.fchown(number, mode.st_uid, mode.st_gid)
        mode = stat.S_IMODE(mode.st_mode)
    os.fchmod(number, mode)
