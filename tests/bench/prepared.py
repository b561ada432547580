"""Fleets on disk, ready to be measured: written, committed, and applied on imagined hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests import fleets
from tests.bench.measuring import GPUAAS

ROOT = Path(__file__).parents[2]
AUTHOR = ["-c", "user.name=olga", "-c", "user.email=olga@corp.example"]
NO_UPKEEP = ["-c", "gc.auto=0", "-c", "maintenance.auto=false"]

VALIDATE = [GPUAAS, "validate"]
PLAN = [GPUAAS, "plan"]
IGNORED = "state/\n.gpuaas/\n"


def on_disk(folder: Path, documents: Iterable[tuple[str, Mapping[str, Any]]]) -> Path:
    """A committed fleet with an empty state."""
    fleets.write(folder, documents)
    (folder / ".gitignore").write_text(IGNORED, encoding="utf-8")
    command(["git", "init", "--quiet", "--initial-branch=main"], folder)
    commit(folder)
    command([GPUAAS, "init", str(folder)], folder)
    return folder


def mixed(work: Path, count: int) -> Path:
    """`count` specs, all of them applied; made once per bench."""
    folder = work / f"mixed-{count}"
    if not folder.exists():
        on_disk(folder, fleets.mixed(count))
        imagine("settle", folder)
    return folder


def imagine(what: str, folder: Path) -> None:
    command([sys.executable, "-m", "tests.simulated_hosts", what, str(folder)], ROOT)


def commit(folder: Path) -> None:
    command(["git", "add", "--all"], folder)
    command(
        ["git", *AUTHOR, *NO_UPKEEP, "commit", "--quiet", "--allow-empty", "--message=specs"],
        folder,
    )


def command(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def forget_cache(folder: Path) -> None:
    for path in (folder / "state").glob("cache.db*"):
        path.unlink()
