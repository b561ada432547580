"""Program output: what a program prints while it runs, within a time limit.

What hangs in the kernel does not end by being killed, and is not waited for.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from contextlib import suppress
from typing import Iterator, Optional

CHUNK = 1 << 16
OUT, ERR = "out", "err"
PATIENCE_SECONDS = 1.0


class Late(Exception):
    """Its time was up before it came to its end."""


def heard(process: "subprocess.Popen[bytes]", until: float) -> Iterator[tuple[str, bytes]]:
    """`OUT` or `ERR`, and what was said there. Raises Late."""
    with selectors.DefaultSelector() as ready:
        for name, file in ((OUT, process.stdout), (ERR, process.stderr)):
            if file is not None:
                ready.register(file, selectors.EVENT_READ, name)
        while ready.get_map():
            rest = until - time.monotonic()
            if rest <= 0:
                raise Late
            for key, _ in ready.select(rest):
                chunk = os.read(key.fd, CHUNK)
                if chunk:
                    yield key.data, chunk
                else:
                    ready.unregister(key.fileobj)


def ended(process: "subprocess.Popen[bytes]", until: float) -> int:
    """How it has ended. Raises Late."""
    try:
        return process.wait(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Late from None


def leave(process: "subprocess.Popen[bytes]") -> None:
    """Nobody listens to it any more, and it is ended if it can be."""
    if process.poll() is None:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=PATIENCE_SECONDS)
    for file in (process.stdout, process.stderr):
        if file is not None:
            file.close()


def said_to(text: str) -> Optional[int]:
    """What a program is to read, as an open file; None if that is nothing."""
    if not text:
        return None
    file = os.memfd_create("given", os.MFD_CLOEXEC)
    with open(os.dup(file), "wb") as writing:
        writing.write(text.encode("utf-8"))
    os.lseek(file, 0, os.SEEK_SET)
    return file
