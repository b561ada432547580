"""What this account may do on this machine, found by doing it; tests that need more are skipped.

Each says why in one phrase: a run counts by them what it could not try (`tests/untried.py`).
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

FOREIGN = 31_999
"""A uid that nobody has."""

MOUNTED = """\
mkdir "$0/from" "$0/to"
mount -t tmpfs -o size=64k none "$0/from"
mount --bind "$0/from" "$0/to"
mount -o remount,bind,ro "$0/to"
"""
OVERLAID = """\
mkdir "$0/lower" "$0/over"
mount -t overlay -o lowerdir="$0/lower":/usr/bin overlay "$0/over"
"""
LOOPED = """\
mkdir "$0/point"
truncate -s 1M "$0/disk"
mkfs.ext4 -q "$0/disk"
mount -o loop "$0/disk" "$0/point"
umount "$0/point"
"""


def needs(*privileges: Callable[[], str]) -> pytest.MarkDecorator:
    """A mark for tests that need all of them; asked when they are about to run, and not before."""
    return pytest.mark.needs.with_args(*privileges)


def have(*privileges: Callable[[], str]) -> None:
    """The same in the midst of a test."""
    for lacks in privileges:
        if why := lacks():
            pytest.skip(why)


@cache
def root() -> str:
    return "" if os.geteuid() == 0 else "root is needed"


@cache
def giving_away() -> str:
    """To make any account the owner of a file, and to work as any."""
    return root() or _tried(_give_away, "files may not be given to other accounts")


@cache
def others() -> str:
    """To see what processes of other accounts have open, and to end them."""
    return giving_away() or _tried(_look, "other accounts' processes may not be looked into")


@cache
def nodes() -> str:
    return giving_away() or _tried(_make_node, "device nodes may not be made")


@cache
def devices() -> str:
    """Nodes that open, too: where files lie, the machine may withhold that."""
    return nodes() or _tried(_open_node, "device nodes of one's own may not be opened")


@cache
def immutable() -> str:
    return _tried(_freeze, "files may not be made immutable")


@cache
def mounts() -> str:
    return root() or _apart(MOUNTED, "file systems may not be mounted")


@cache
def overlays() -> str:
    return mounts() or _apart(OVERLAID, "overlays may not be mounted")


@cache
def loops() -> str:
    return mounts() or _apart(LOOPED, "disk images may not be mounted")


@cache
def sshd() -> str:
    """A daemon of our own, in process and mount namespaces of its own."""
    return programs("/usr/sbin/sshd", "ssh") or (mounts() and f"a local sshd: {mounts()}")


def programs(*names: str) -> str:
    absent = [Path(name).name for name in names if shutil.which(name) is None]
    return f"no {', '.join(absent)} here" if absent else ""


def _tried(deed: Callable[[Path], None], why: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            deed(Path(folder))
        except (OSError, subprocess.CalledProcessError):
            return why
    return ""


def _give_away(folder: Path) -> None:
    os.chown(folder, FOREIGN, FOREIGN)
    _ordered(*_as_other(), "true")
    os.chown(folder, 0, 0)


def _look(folder: Path) -> None:
    with subprocess.Popen([*_as_other(), "sleep", "9"], stdout=subprocess.DEVNULL) as other:
        try:
            while not os.readlink(f"/proc/{other.pid}/exe").endswith(("sleep", "coreutils")):
                os.stat(f"/proc/{other.pid}/fd/1")
            os.stat(f"/proc/{other.pid}/fd/1")
        finally:
            other.kill()


def _make_node(folder: Path) -> None:
    os.mknod(folder / "node", 0o600 | stat.S_IFCHR, os.makedev(195, 3))
    os.chown(folder / "node", FOREIGN, FOREIGN)


def _open_node(folder: Path) -> None:
    os.mknod(folder / "zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    os.close(os.open(folder / "zero", os.O_RDWR))


def _freeze(folder: Path) -> None:
    file = folder / "file"
    file.touch()
    _ordered("chattr", "+i", file)
    _ordered("chattr", "-i", file)


def _apart(script: str, why: str) -> str:
    words = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-euc", script)
    return _tried(lambda folder: _ordered(*words, folder), why)


def _as_other() -> Iterable[str]:
    return ("setpriv", f"--reuid={FOREIGN}", f"--regid={FOREIGN}", "--clear-groups")


def _ordered(*words: str | Path) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True)
