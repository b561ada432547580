"""Wheels that pip downloads into a folder for hosts: the agreed ones, or none.

Hosts that reach no index are built from such a folder. Which wheel it is the hash says alone, so
pip is told to look at those of any machine; and what lies in the folder afterwards is looked at.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reconciler.hosts.pip_settings import options
from reconciler.hosts.program_output import output_of
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.spec.requirements import Requirements

MACHINES = ("x86_64", "aarch64")
GLIBCS = range(5, 60)
"""Minor versions of the C library that a wheel may ask for."""

MAX_SAID = 1024 * 1024
"""More than pip says of anything; what an index answers is told by it in its own words."""

ONLY_AGREED = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--ignore-requires-python")


def fetch_wheels(
    lock: Requirements, python: str, folder: Path, indexes: Sequence[str]
) -> tuple[str, ...]:
    """The names of the wheels of a lock, which are in `folder` when this returns.

    What lies there already is not fetched again. `indexes` are addresses, or folders as `file://`;
    without any, pip asks those that its settings on this machine name. Raises ProblemError
    `mirror_failed`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _missing(lock, _wheels(folder)):
            _pip(lock, python, folder, indexes)
        wheels = _wheels(folder)
    except OSError as error:
        why = f"{error.filename or folder}: {error.strerror}"
        raise _failed(why, "name a folder that you may write to") from error
    if missing := _missing(lock, wheels):
        raise _failed(f"pip has fetched no wheel for {', '.join(missing)}", "ask another index")
    agreed = {digest for one in lock.releases for digest in one.hashes}
    return tuple(sorted(name for digest, name in wheels.items() if digest in agreed))


def _pip(lock: Requirements, python: str, folder: Path, indexes: Sequence[str]) -> None:
    """Nobody's settings decide what it does: it is told whatever it relies on."""
    told = _run(("config", "list"), os.environ)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="ascii") as file:
        file.write(lock.text)
        file.flush()
        words = (
            *("download", "--isolated", "--no-input", "--quiet", *ONLY_AGREED),
            *("--implementation", "cp", "--python-version", python),
            *(f"--platform={platform}" for platform in _platforms()),
            *options(told, with_places=not indexes),
            *_sources(indexes),
            *("--dest", str(folder), "--requirement", file.name),
        )
        _run(words, {**kept, "PIP_CONFIG_FILE": os.devnull})


def _run(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """What pip says, of a Python that takes nothing from the folder it is called in."""
    pip = (sys.executable, "-I", "-m", "pip", *words)
    told = output_of(pip, MAX_SAID, environment, alone=True)
    if not told.is_whole:
        raise _failed(f"pip says more than {MAX_SAID >> 20} MiB", "ask another index")
    if told.code != 0:
        raise _of_pip(told.text)
    return told.text


def _platforms() -> Iterator[str]:
    for machine in MACHINES:
        yield from (f"manylinux_2_{minor}_{machine}" for minor in GLIBCS)
        yield from (f"{name}_{machine}" for name in ("manylinux2014", "manylinux2010", "linux"))
    yield "manylinux1_x86_64"


def _sources(indexes: Sequence[str]) -> Iterator[str]:
    """Hashes say what is taken, so it does no harm that pip takes it from any of them."""
    folders = [one for one in indexes if one.startswith("file://")]
    first, *others = [one for one in indexes if one not in folders] or [""]
    yield from (f"--find-links={one.removeprefix('file://')}" for one in folders)
    if first:
        yield f"--index-url={first}"
    elif folders:
        yield "--no-index"
    yield from (f"--extra-index-url={one}" for one in others)


def _wheels(folder: Path) -> Mapping[str, str]:
    """Names by the hash of what they hold."""
    return {_digest(path): path.name for path in sorted(folder.glob("*.whl"))}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(lock: Requirements, wheels: Mapping[str, str]) -> list[str]:
    """Releases without any of their wheels; one that is for some machines only may have none."""
    return [
        f"{one.name}=={one.version}"
        for one in lock.releases
        if not one.marker and not wheels.keys() & set(one.hashes)
    ]


def _of_pip(said: str) -> ProblemError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if "No module named pip" in said:
        return _failed("there is no pip beside this Python", f"{sys.executable} -m ensurepip")
    if "do not match the hashes" in said.lower():
        why = "an index has something else under the name of a wheel that was agreed"
        return _failed(why, "find out where it is from; never change the lock to fit it")
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return _failed((errors or lines or ["pip has failed"])[-1], "name an index: --index URL")


def _failed(why: str, hint: str) -> ProblemError:
    return refuse("mirror_failed", f"the wheels were not fetched: {why}", hint)
