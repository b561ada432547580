"""What pytest says at the end: how often commands were killed, and how many texts were tried."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# What runs on hosts can be imported as the package `gpuaas`.
sys.path.append(str(Path(__file__).parents[1] / "playbooks" / "module_utils"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Whoever is started in the background by a shell ignores it, and so would all that is tried.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = terminalreporter.stats.get("passed", ())
    kills = [str(kill) for kill in told(passed, "killed")]
    if kills:
        stops = {kill.split()[-1].partition("#")[0] for kill in kills}
        terminalreporter.write_line(f"{len(kills)} kills at {len(stops)} stops")
    tried = [int(str(number)) for number in told(passed, "hostile")]
    if tried:
        terminalreporter.write_line(f"{sum(tried)} pairs of a text field and a hostile text")


def told(reports: list[pytest.TestReport], wanted: str) -> Iterator[object]:
    for report in reports:
        yield from (value for name, value in report.user_properties if name == wanted)
