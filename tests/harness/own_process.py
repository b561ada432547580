"""`gpuaas` in a process of its own, with the supervisor that the test itself has."""

from __future__ import annotations

import sys
from pathlib import Path

from reconciler.hosts.ansible import run

SUPERVISOR = Path(run.__file__).with_name("supervisor.py")
MAIN = "from reconciler.cli.main import main; main()"


def program() -> tuple[str, ...]:
    """What to put before the words of a command."""
    return (sys.executable, "-c", script(MAIN))


def script(text: str) -> str:
    """Python that works with the stand-in for Ansible where its test does (`tests/conftest.py`)."""
    if run.GUARD == SUPERVISOR:
        return text
    told = f"from reconciler.hosts.ansible import run; run.GUARD = Path({str(run.GUARD)!r})"
    return f"from pathlib import Path; {told}\n{text}"
