"""Files of some uids, found by the host's own `find`, which reads a million a second.

A look that did not come to its end, or met what it could not enter, is none. What goes meanwhile is
passed over. What a server or somebody's program serves is not there for it, so that it asks none.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
from functools import partial
from typing import Iterator, Sequence

from .mounts import Mount
from .paths import inside
from .probes import SAFE_PATH, ProbeError, found_in_path, printable
from .program_output import ERR, OUT, Late, ended, heard, leave

MAX_SAID = 300
MAX_RECORD = 1 << 22

WENT = re.compile(
    rb"[\w/]*find: .*: (No such file or directory|Stale file handle|Not a directory"
    rb"|Too many levels of symbolic links)"
)
"""Something went, or something else is there now, between being listed and being entered."""

WITH_ANOTHER = frozenset({errno.EINVAL, errno.ENOENT})
"""Of one that has gone with another above it, or by itself."""

NEW_NAMESPACE, PRIVATE, DETACH = 0x20000, 0x4000 | 0x40000, 2 | 8


def any_of(uids: Sequence[int]) -> list[str]:
    """The test of `find` for one of these owners, in their containers too."""
    return " -o ".join(" ".join(between(uid, uid)) for uid in uids).split()


def between(first: int, last: int) -> list[str]:
    """The test of `find` for owners from `first` to `last`, in their containers too."""
    within = ((first, last), (inside(first)[0], inside(last)[1]))
    return " -o ".join(f"-uid +{low - 1} -uid -{high + 1}" for low, high in within).split()


def owned_below(
    point: str,
    who: Sequence[str],
    without: Sequence[str],
    until: float,
    served: Sequence[Mount] = (),
) -> Iterator[tuple[int, str]]:
    """(uid, path) of all below `point` whose owner passes the test, folders before what is in them.

    What is mounted at `without` is not entered, but its place is told; who serves what is mounted
    at `served` is not asked even for that, since nobody may answer. Raises ProbeError.
    """
    program = found_in_path("find")
    if program is None:
        raise ProbeError("find is not there")
    if not os.path.lexists(point):
        raise ProbeError(f"{printable(point)} is not there any more")
    hide = partial(_detach, ctypes.CDLL(None, use_errno=True), [one.point for one in served])
    try:
        find = subprocess.Popen(
            [program, point, *words(who, without)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": SAFE_PATH, "LC_ALL": "C"},
            preexec_fn=hide if served else None,
        )
    except subprocess.SubprocessError:
        raise ProbeError(f"{printable(point)}: shares cannot be left out of the look") from None
    said = Complaints()
    try:
        yield from records(find, said, until)
        code = ended(find, until)
    except Late:
        raise ProbeError(f"{printable(point)}: more files than can be looked at in time") from None
    finally:
        leave(find)
    is_whole = code == 0 or (code == 1 and said.went and os.path.lexists(point))
    if said.first or not is_whole:
        why = said.first.decode("utf-8", "replace") or "the look has not come to its end"
        raise ProbeError(f"{printable(point)}: {printable(why)}")


def _detach(libc: ctypes.CDLL, points: Sequence[str]) -> None:
    """Between the beginning of a process and that of its program: for that process alone.

    Nobody is asked for it who may not answer. The latest goes first, as it hides the others.
    """
    if libc.unshare(NEW_NAMESPACE) or libc.mount(b"none", b"/", None, PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no namespace of its own")
    for point in reversed(points):
        if libc.umount2(os.fsencode(point), DETACH) and ctypes.get_errno() not in WITH_ANOTHER:
            raise OSError(ctypes.get_errno(), "a share cannot be left out")


def words(who: Sequence[str], without: Sequence[str]) -> Iterator[str]:
    """All that `find` is told: what goes meanwhile is passed over, and no link is followed."""
    told = ("(", *who, ")", "-printf", r"%U %p\0")
    yield "-ignore_readdir_race"
    for place in without:
        literal = re.sub(r"([*?\[\]\\])", r"\\\1", place)
        yield from ("-path", literal, "-prune", *told, "-o")
    yield from told


class Complaints:
    """Of a look: the first that counts, and how many were about what has gone."""

    def __init__(self) -> None:
        self.first, self.went = b"", 0

    def add(self, line: bytes) -> None:
        if WENT.fullmatch(line):
            self.went += 1
        else:
            self.first = self.first or line[:MAX_SAID]


def records(
    find: "subprocess.Popen[bytes]", said: Complaints, until: float
) -> Iterator[tuple[int, str]]:
    """Raises Late."""
    rest = {OUT: b"", ERR: b""}
    for where, chunk in heard(find, until):
        mark = b"\n" if where == ERR else b"\0"
        *whole, rest[where] = (rest[where] + chunk).split(mark)
        if len(rest[where]) > MAX_RECORD:
            said.add(b"a path is too long to be told")
            return
        for record in whole:
            if where == ERR:
                said.add(record)
            else:
                uid, _, path = record.partition(b" ")
                yield int(uid), os.fsdecode(path)
