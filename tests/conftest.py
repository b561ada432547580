"""What pytest says at the end: how often commands were killed, and at how many stops."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    kills = [
        str(value)
        for report in terminalreporter.stats.get("passed", ())
        for name, value in report.user_properties
        if name == "killed"
    ]
    if kills:
        stops = {kill.split()[-1].partition("#")[0] for kill in kills}
        terminalreporter.write_line(f"{len(kills)} kills at {len(stops)} stops")
