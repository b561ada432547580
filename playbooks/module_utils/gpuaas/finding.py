"""Files of some uids, found by the host's own `find`: it looks at a million a second.

A look that did not come to its end, or met what it could not enter, is none.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from typing import Iterator, Sequence

from .paths import inside
from .probes import SAFE_PATH, ProbeError, found_in_path, printable

CHUNK = 1 << 16
MAX_SAID = 300


def any_of(uids: Sequence[int]) -> list[str]:
    """The test of `find` for one of these owners, in their containers too."""
    return " -o ".join(" ".join(between(uid, uid)) for uid in uids).split()


def between(first: int, last: int) -> list[str]:
    """The test of `find` for owners from `first` to `last`, in their containers too."""
    within = ((first, last), (inside(first)[0], inside(last)[1]))
    return " -o ".join(f"-uid +{low - 1} -uid -{high + 1}" for low, high in within).split()


def owned_below(
    point: str, who: Sequence[str], without: Sequence[str], until: float
) -> Iterator[tuple[int, str]]:
    """(uid, path) of all below `point` whose owner passes the test, folders before what is in them.

    What is mounted at `without` is not entered, but its place is told. Raises ProbeError.
    """
    program = found_in_path("find")
    if program is None:
        raise ProbeError("find is not there")
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [program, point, *words(who, without)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={"PATH": SAFE_PATH, "LC_ALL": "C"},
        ) as find,
    ):
        late = threading.Timer(max(0.0, until - time.monotonic()), find.kill)
        late.start()
        try:
            yield from records(find)
            code = find.wait()
        finally:
            late.cancel()
            find.kill()
        if code < 0:
            raise ProbeError(f"{point}: more files than can be looked at in time")
        if code != 0:
            errors.seek(0)
            said = errors.read(MAX_SAID).decode("utf-8", "replace")
            raise ProbeError(f"{point}: {printable(said.strip())}")


def words(who: Sequence[str], without: Sequence[str]) -> Iterator[str]:
    """All that `find` is told: what goes meanwhile is passed over, and no link is followed."""
    told = ("(", *who, ")", "-printf", r"%U %p\0")
    yield "-ignore_readdir_race"
    for place in without:
        literal = re.sub(r"([*?\[\]\\])", r"\\\1", place)
        yield from ("-path", literal, "-prune", *told, "-o")
    yield from told


def records(find: "subprocess.Popen[bytes]") -> Iterator[tuple[int, str]]:
    assert find.stdout is not None
    rest = b""
    while chunk := find.stdout.read(CHUNK):
        *whole, rest = (rest + chunk).split(b"\0")
        for record in whole:
            uid, _, path = record.partition(b" ")
            yield int(uid), os.fsdecode(path)
