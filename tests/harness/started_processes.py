"""Which processes a piece of work starts, told by the interpreter itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_started: list[list[str]] = []
_listening = False


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _listening:
        _started.append([str(word) for word in args[1]])


# A hook stays for the life of the interpreter: there is one, and it is told when to listen.
sys.addaudithook(_note)


@contextmanager
def processes() -> Iterator[list[list[str]]]:
    """The command of every process that this one starts meanwhile."""
    global _listening
    _started.clear()
    _listening = True
    try:
        yield _started
    finally:
        _listening = False
