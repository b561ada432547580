"""Progress: what hosts are doing now, written beside the state for those who watch.

No truth: it may be deleted at any time, nothing is decided by it, and where it cannot be written
the run goes on. What it says of a wave goes into the record when that ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from reconciler.model.moment import format_moment
from reconciler.model.plan.work import HostProgress
from reconciler.model.timeline import Under

PROGRESS = "progress"
MODE = 0o600
MOST_BYTES = 4 * 1024 * 1024


class RunProgress:
    """Of one run. `tick` is called by one thread at a time, and never fails."""

    def __init__(self, state: Path, clock: Callable[[], datetime]) -> None:
        self._path = state / PROGRESS
        self._clock = clock
        self._ticks: dict[str, dict[str, str]] = {}

    def begin(self, run: str) -> None:
        """What was told of the run before is told no more."""
        self._write({"run": run}, os.O_TRUNC)

    def begin_wave(self) -> None:
        """Hosts come to their first phase anew."""
        self._ticks = {}
        self._write({"wave": True}, os.O_APPEND)

    def tick(self, progress: HostProgress) -> None:
        at = format_moment(self._clock())
        self._ticks.setdefault(progress.node, {}).setdefault(progress.phase, at)
        told = {"node": progress.node, "phase": progress.phase, "at": at}
        self._write(told, os.O_APPEND)

    @property
    def ticks(self) -> Mapping[str, Mapping[str, str]]:
        """By node, when its host first came to each phase of this wave."""
        return self._ticks

    def _write(self, told: Mapping[str, str | bool], how: int) -> None:
        with suppress(OSError):
            number = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | how, MODE)
            with open(number, "ab") as file:
                file.write(json.dumps(told).encode() + b"\n")


def read_progress(state: Path) -> Under:
    """What was told last; empty where nothing can be read."""
    run, ticks = "", dict[str, dict[str, str]]()
    with suppress(OSError, ValueError), (state / PROGRESS).open("rb") as file:
        for line in file.read(MOST_BYTES).splitlines():
            match json.loads(line):
                case {"node": str(node), "phase": str(phase), "at": str(at)}:
                    ticks.setdefault(node, {}).setdefault(phase, at)
                case {"run": str(run)}:
                    ticks = {}
                case {"wave": True}:
                    ticks = {}
    return Under(run=run, ticks=ticks)
