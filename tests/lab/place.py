"""Where the lab keeps its things, and how it asks the machine to do something.

One folder holds all: the image, the hosts' disks, the keys. It is a cache: with every host down,
it may be deleted.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "gpuaas-lab"
"""Of the network namespace, of our end of the cable into it, and of the hosts' cgroup."""


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
