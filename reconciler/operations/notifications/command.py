"""Notification by a program: a list of words, no shell, the message on standard input."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

SECONDS = 30.0
PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""All that it gets to see of the loop's environment, which may hold credentials of others."""


def run(command: Sequence[str], body: bytes) -> str:
    """Run the program and return why it failed; empty if it did not. Its output is ignored."""
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    try:
        program = subprocess.Popen(
            list(command),
            env=environment,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"cannot be started: {getattr(error, 'strerror', None) or 'no such words'}"
    with program:
        try:
            program.communicate(body, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(program.pid, signal.SIGKILL)
            return f"did not end within {SECONDS:.0f} s"
    code = program.returncode
    return "" if code == 0 else f"exit {code}" if code > 0 else f"ended by signal {-code}"
