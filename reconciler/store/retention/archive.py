"""Archives: files beside the state with its oldest events, once it holds too many.

A line is the very text that the digest of its event covers. So a file needs no checksum of its own:
the chain, from the digest before it to the one that the state has written down, vouches for it.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from filecmp import cmp
from itertools import count
from pathlib import Path
from typing import Any

from reconciler.model.canonical import canonical
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.stops import reach
from reconciler.store import chain
from reconciler.store.backup.copy import make_room, sync
from reconciler.store.file.connection import PARTIAL

FOLDER = "archive"
RECOVER = "copy the file back from where the state folder is backed up; nothing else needs it"

NAMES = tuple(name.strip('"') for name in chain.COLUMNS.split(", "))
Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The events from `first` to `last`; `before` is the digest that the first one follows."""

    first: int
    last: int
    before: str
    digest: str
    path: Path


def archives(connection: sqlite3.Connection, state: Path) -> Iterator[Archive]:
    """Those of the state file `state`, oldest first, as it has them written down."""
    if not chain.has_archives(connection):
        return
    last, before = 0, ""
    rows = connection.execute("SELECT last, digest, file FROM event_archive ORDER BY last")
    for end, digest, file in rows.fetchall():
        path = state.parent / FOLDER / file
        yield Archive(first=last + 1, last=end, before=before, digest=digest, path=path)
        last, before = end, digest


def read(archive: Archive) -> Iterator[tuple[Row, str]]:
    """Its events and their digests, oldest first, never all of them at a time.

    Raises ProblemError `archive_missing`, or `archive_broken` where it is not what was written:
    what came before that is not to be believed either.
    """
    digest = archive.before
    try:
        with gzip.open(archive.path) as file:
            for line in file:
                text = line.decode().removesuffix("\n")
                digest = chain.link(digest, text)
                yield json.loads(text), digest
    except FileNotFoundError as error:
        raise refuse("archive_missing", f"{archive.path} is not there", RECOVER) from error
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise _broken(archive, str(error)) from error
    if digest != archive.digest:
        raise _broken(archive, "it is not what was written then")


def digest_of(connection: sqlite3.Connection, state: Path, sequence: int) -> str:
    """The digest of an event, wherever it is by now; empty where that cannot be said."""
    query = "SELECT digest FROM event WHERE sequence = ?"
    found: tuple[str] | None = connection.execute(query, (sequence,)).fetchone()
    if found is not None:
        return found[0]
    holding = (a for a in archives(connection, state) if a.first <= sequence <= a.last)
    with suppress(ProblemError):
        for one in holding:
            return next(digest for row, digest in read(one) if row[0] == sequence)
    return ""


def write(connection: sqlite3.Connection, state: Path, last: int) -> str:
    """The name of a file on disk with the events of the state up to `last`, none of them gone yet.

    Named by its content, so that two histories that parted at a restore never meet in one file;
    whatever else is found under the name is left alone.
    """
    start, before = chain.anchor(connection)
    (digest,) = connection.execute(
        "SELECT digest FROM event WHERE sequence = ?", (last,)
    ).fetchone()
    folder = state.parent / FOLDER
    make_room(folder)
    stem = f"events-{start + 1:09}-{last:09}-{digest.partition(':')[2][:12]}"
    partial = folder / (stem + PARTIAL)
    _pack(connection, partial, start, last)
    packed = Archive(first=start + 1, last=last, before=before, digest=digest, path=partial)
    for _ in read(packed):
        pass
    reach("archive.during")
    names = (f"{stem}{f'-{number}' if number else ''}.jsonl.gz" for number in count())
    name = next(name for name in names if _is_free_for(folder / name, partial))
    partial.rename(folder / name)
    sync(folder)
    return name


def _pack(connection: sqlite3.Connection, path: Path, start: int, last: int) -> None:
    """Without a time or a name in it: the same events make the same bytes."""
    query = f"SELECT {chain.COLUMNS} FROM event WHERE sequence > ? AND sequence <= ?"
    rows = connection.execute(f"{query} ORDER BY sequence", (start, last))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.writelines(canonical(row).encode() + b"\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())


def _is_free_for(path: Path, ours: Path) -> bool:
    """Nothing is there, or the same: from a crash, or from before a restore."""
    return not path.exists() or cmp(path, ours, shallow=False)


def _broken(archive: Archive, why: str) -> ProblemError:
    return refuse("archive_broken", f"{archive.path}: {why}", RECOVER)
