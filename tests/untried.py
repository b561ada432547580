"""What could not be tried on this machine, and why: counted by each run, told at the end of all.

`python -m tests.untried` prints the one line with which `make test` ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.lab import borrowing

FOLDER = Path(__file__).parents[1] / ".venv" / "untried"
PART = "GPUAAS_PART"
"""The variable with the name of the part of `make test` that is run."""


def reasons(skipped: Iterable[Any]) -> Counter[str]:
    """How many tests were skipped for what."""
    told: Counter[str] = Counter()
    for report in skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        told[str(why).removeprefix("Skipped: ").splitlines()[0]] += 1
    return told


def line(told: Mapping[str, int]) -> str:
    """`not tried here: 7 tests: no zsh here (4); root is needed (3)`, or nothing if all was."""
    if not told:
        return ""
    total = sum(told.values())
    parts = sorted(told.items(), key=lambda one: (-one[1], one[0]))
    each = "; ".join(f"{why} ({count})" for why, count in parts)
    return f"not tried here: {total} test{'s' if total != 1 else ''}: {each}"


def keep(told: Mapping[str, int], folder: Path = FOLDER) -> None:
    """For the end of all, if this run is a part of it."""
    if part := os.environ.get(PART):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{part}.json").write_text(json.dumps(told), encoding="utf-8")


def of_all(parts: Iterable[str], why_no_lab: str, folder: Path = FOLDER) -> str:
    """One line about all parts; the lab is none of them."""
    told: Counter[str] = Counter()
    for part in parts:
        told.update(json.loads((folder / f"{part}.json").read_text(encoding="utf-8")))
    lab = f"no lab here: {why_no_lab}" if why_no_lab else "`make test-hosts` tries them"
    return f"{line(told) or 'not tried here: no test'}; and the real hosts of the lab ({lab})"


if __name__ == "__main__":
    print(of_all(sys.argv[1:], borrowing.lacks()))
