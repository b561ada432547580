"""Counts of the calls that a piece of work makes, and of the lines.

Time differs between machines and hours; how often each function is called does not. A fleet four
times as large may take four times as many calls, and a little for what sorts.
"""

from __future__ import annotations

import cProfile
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).parents[1]
OURS = str(ROOT / "reconciler")
WAITING = ("_check_timeout", "_remaining_time", "_try_wait")


def calls(work: Callable[[], object]) -> Mapping[str, int]:
    """How often each Python function was called, by its file and name."""
    profile = cProfile.Profile(builtins=False)
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    found: Counter[str] = Counter()
    for entry in profile.getstats():  # type: ignore[attr-defined]
        if not _is_of_chance(entry.code):
            found[_name(entry.code)] += entry.callcount
    return found


def lines(work: Callable[[], object]) -> Mapping[str, int]:
    """How many lines of each of our functions were run: a loop that calls nothing counts too."""
    found: Counter[CodeType] = Counter()

    def begin(frame: FrameType, event: str, arg: object) -> Callable[..., object] | None:
        return step if frame.f_code.co_filename.startswith(OURS) else None

    def step(frame: FrameType, event: str, arg: object) -> Callable[..., object]:
        if event == "line":
            found[frame.f_code] += 1
        return step

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        work()
    finally:
        sys.settrace(before)
    named: Counter[str] = Counter()
    for code, number in found.items():
        named[_name(code)] += number
    return named


def _is_of_chance(code: CodeType) -> bool:
    """How often the pipe of a child is looked at says how busy the machine is."""
    file = Path(code.co_filename).name
    return file == "selectors.py" or (file == "subprocess.py" and code.co_name in WAITING)


def _name(code: CodeType) -> str:
    where = Path(code.co_filename)
    file = str(where.relative_to(ROOT)) if where.is_relative_to(ROOT) else where.name
    return f"{file}:{code.co_firstlineno} {code.co_name}"
