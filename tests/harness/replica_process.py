"""`gpuaas state replicate` as a process beside a test, killed at its end; nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
GPUAAS = "import sys; from reconciler.cli.main import main; main()"
PATIENCE = 30.0


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it never came to it"
        time.sleep(0.05)


def command(fleet: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", GPUAAS, "-C", str(fleet), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def replicating(fleet: Path, copy: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Begun once something lies in `copy`."""
    process = command(fleet, "state", "replicate", *words)
    try:
        until(lambda: list(copy.rglob("*.ltx")))
        yield process
    finally:
        process.kill()
        process.communicate()
        until(lambda: not of_litestream(fleet))


def of_litestream(folder: Path) -> list[int]:
    """Processes of Litestream that were told of something in this folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"litestream") and str(folder).encode() in b" ".join(words):
                found.append(int(process.name))
    return found
