"""Measuring without fooling oneself: processes of their own, turns taken A B A B, medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

STOPWATCH = Path(__file__).with_name("stopwatch.py")
GPUAAS = str(Path(sys.executable).with_name("gpuaas"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `met` says whether `reach`, the budget, was kept; None = no budget."""

    topic: str
    what: str
    ours: str
    beside: str = ""
    ratio: str = ""
    reach: str = ""
    met: bool | None = None

    def tell(self) -> None:
        """To the process that collects the rows."""
        print(json.dumps(asdict(self)), flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    seconds: float
    cpu: float
    peak_mib: float
    output: str


def run(command: Sequence[str], folder: Path, codes: tuple[int, ...] = (0,)) -> Run:
    """One run of a command; a code that is not expected ends the bench with its output."""
    reading, writing = os.pipe()
    watch = [sys.executable, "-I", "-S", str(STOPWATCH), *command]
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" 3>&{writing}', "sh", *watch],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(writing,),
        text=True,
        env=environment(),
    )
    os.close(writing)
    output, _ = process.communicate()
    with os.fdopen(reading) as told:
        words = told.read().split()
    if not words or int(words[3]) not in codes:
        raise SystemExit(f"{' '.join(command)}\n{output[-2000:]}")
    return Run(
        seconds=float(words[0]), cpu=float(words[1]), peak_mib=int(words[2]) / 1024, output=output
    )


def environment() -> dict[str, str]:
    """As after an installation: compiled once, whatever the shell around us says to Python."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**kept, "NO_COLOR": "1", "TERM": "dumb", "CHECKPOINT_DISABLE": "1"}


def taking_turns(rounds: int, *turns: Callable[[], Run]) -> list[Run]:
    """Every turn `rounds` times, A B A B; of each the run with the median time."""
    runs: list[list[Run]] = [[] for _ in turns]
    for _ in range(rounds):
        for turn, kept in zip(turns, runs, strict=True):
            kept.append(turn())
    return [median(kept) for kept in runs]


def median(runs: Sequence[Run]) -> Run:
    return sorted(runs, key=lambda r: r.seconds)[len(runs) // 2]


def timed(rounds: int, *turns: Callable[[], object]) -> list[float]:
    """Seconds of each function, A B A B, medians."""
    times: list[list[float]] = [[] for _ in turns]
    for _ in range(rounds):
        for turn, kept in zip(turns, times, strict=True):
            started = time.perf_counter()
            turn()
            kept.append(time.perf_counter() - started)
    return [statistics.median(kept) for kept in times]


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.0f} ms"


def memory(run: Run) -> str:
    return f"{run.peak_mib:.0f} MiB"


def scaled(count: int, scale: float, least: int = 10) -> int:
    return max(least, round(count * scale))


def at_least(ratio: float, wanted: float) -> Mapping[str, object]:
    """Fields of a Row: ours must be `wanted` times ahead."""
    return {"ratio": f"{ratio:.1f} x ahead", "reach": f">= {wanted:g} x", "met": ratio >= wanted}


def at_most(ratio: float, wanted: float) -> Mapping[str, object]:
    """Fields of a Row: ours may cost `wanted` times the other."""
    return {"ratio": f"{ratio:.2f} x", "reach": f"<= {wanted:g} x", "met": ratio <= wanted}
