"""Runtime builds: folders beside the runtimes in which bundle versions are being built.

Who is at work in one has it locked. What is told of it, by the builder and then by root, are words
that may be half written or gone: they explain, and decide nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from typing import Any

from .probes import opener, printable

STARTING_SECONDS = 10.0
"""For so long nobody works on a job that has just been laid out."""

WORKS = ("seal", "build")
"""Each has a folder for its words in the folder of a job."""


def is_alive(folder: str) -> bool:
    """Whether somebody is at work on a job: whoever is has it locked, however it was started.

    Between its work and its time to begin, and between its two works, nobody has for a moment.
    """
    try:
        with open(os.path.join(folder, "alive"), mode="rb", opener=opener()) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    if has_failed(folder):
        return False
    # What has begun, and is not at its end, was cut short, as by a host that starts anew.
    begun = os.path.lexists(os.path.join(folder, "build/phase.json"))
    return _is_fresh(os.path.join(folder, "build/done.json" if begun else "job.json"))


def has_failed(folder: str) -> bool:
    return any(read(folder, f"{work}/failed.json") for work in WORKS)


def _is_fresh(path: str) -> bool:
    with suppress(OSError):
        return 0 <= time.time() - os.lstat(path).st_mtime < STARTING_SECONDS
    return False


def unwanted(folder: str) -> str:
    """The digest of what stands where its version is to be, and is another's; empty for none."""
    return str(read(folder, "job.json").get("unwanted", ""))


def at_work(folder: str) -> str:
    """In the words of whoever was at it last: root's own before the builder's."""
    for work in WORKS:
        failed = read(folder, f"{work}/failed.json")
        if failed:
            code, message = str(failed.get("code"))[:40], str(failed.get("message"))[:300]
            return printable(f"failed {code}: {message}")
    told = next(filter(None, (read(folder, f"{work}/phase.json") for work in WORKS)), {})
    at = printable(str(told.get("phase", "space")))[:20]
    if is_alive(folder):
        return f"staging {at}"
    return f"failed runtime_interrupted: it ended during {at}"


def read(folder: str, name: str) -> dict[str, Any]:
    """Half of it, or none of it, says nothing; nor does what leads elsewhere, or is no file.

    Whatever a builder has put there instead, a look at its host is to survive it.
    """
    with suppress(OSError, ValueError, RecursionError):
        with open(os.path.join(folder, name), mode="rb", opener=opener()) as file:
            told = json.loads(file.read(1 << 20) or b"")
        return told if isinstance(told, dict) else {}
    return {}
