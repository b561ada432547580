"""Hosts for tests: fresh ones, borrowed for as long as they are needed and never left behind."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.lab import host, network, place, recipe
from tests.lab.host import Host

PROGRAMS = ("systemd-nspawn", "mmdebstrap", "tar", "ip", "nsenter", "unshare", "ssh", "ssh-keygen")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
COUNTER = itertools.count()


def lacks() -> str:
    """What this machine lacks for a lab, as far as that is seen without building one; or ''."""
    if os.geteuid() != 0:
        return "the lab needs root"
    if absent := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"the lab needs {', '.join(absent)}"
    if Path("/proc/driver/nvidia").exists():
        return "the lab's device nodes would be those of the cards of this machine"
    try:
        place.order("unshare", "--mount", "true")
    except place.LabError as error:
        return f"the lab needs mounts and namespaces: {error}"
    return ""


def why_not() -> str:
    """What this machine lacks for a lab, in words; '' if it has one."""
    if why := lacks():
        return why
    try:
        network.up()
        recipe.image()
    except place.LabError as error:
        return f"the lab cannot be built: {error}"
    return ""


@contextmanager
def fresh(
    count: int, binds: Mapping[Path, str] | None = None, suite: str = recipe.SUITE
) -> Iterator[tuple[Host, ...]]:
    """Hosts that were never up before, each with `binds`. If this process dies, they go with it."""
    mine = tuple(host.host(f"t{_short(os.getpid())}n{next(COUNTER)}") for _ in range(count))
    try:
        for each in mine:
            each.bind(binds or {})
            each.of(suite)
            each.up(owner=os.getpid())
        for each in mine:
            each.wait()
        yield mine
    finally:
        for each in mine:
            host.forget(each)


def _short(number: int) -> str:
    more, digit = divmod(number, len(DIGITS))
    return (_short(more) if more else "") + DIGITS[digit]
