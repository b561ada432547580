"""Where the lab keeps its things, and how it asks the machine to do something.

One folder holds all: the image, the hosts' disks, the keys. It is a cache: with every host down,
it may be deleted.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "gpuaas-lab"
"""Of the network namespace, of our end of the cable into it, and of the hosts' cgroup."""

WATCHERS = Path("/proc/sys/fs/inotify/max_user_instances")
WATCHERS_NEEDED = 4096
"""Root's, in all hosts together: six for a host's systemd, three more for each who is logged in."""


class LabError(Exception):
    """What the lab could not do, with the words of the program that did not do it."""


def folder() -> Path:
    chosen = os.environ.get("GPUAAS_LAB_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / NAME


def hosts_folder() -> Path:
    return folder() / "hosts"


def order(*words: str | Path) -> str:
    """Run a program of this machine; its output, or a LabError with what it said."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise LabError(f"{' '.join(map(str, words))}: {said or f'exit {done.returncode}'}")
    return done.stdout


def make_room() -> None:
    """Many kernels allow 128 watchers; the host that finds none left ends in the midst of its boot.

    Where it may not be raised, as many hosts as fit can still be had.
    """
    if int(WATCHERS.read_text(encoding="ascii")) < WATCHERS_NEEDED:
        with suppress(OSError):
            WATCHERS.write_text(f"{WATCHERS_NEEDED}", encoding="ascii")


@contextmanager
def alone(what: str) -> Iterator[None]:
    """One process at a time, however many labs stand side by side."""
    folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder() / f"{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def key(name: str = "control") -> Path:
    """The private half of a key pair of this lab, made when first asked for."""
    path = folder() / "keys" / name
    with alone("keys"):
        if not path.exists():
            path.parent.mkdir(exist_ok=True, mode=0o700)
            comment = f"{name}@{NAME}"
            order("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)
    return path


def public(private: Path) -> str:
    return private.with_suffix(".pub").read_text(encoding="utf-8").strip()
