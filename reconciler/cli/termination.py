"""Ending a command from outside: every signal becomes exactly one KeyboardInterrupt.

What is under way is so left in order, lock and processes included. While hosts are at work,
`operations/signals` has its own say.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def end_by_signals() -> None:
    """Install the handlers for this process; ignored signals stay so, as `nohup` and `&` want
    it.
    """
    _handle(_end)


def be_ended() -> None:
    """All is done and said: what comes now would only spoil the exit code."""
    _handle(signal.SIG_IGN)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    _handle(_is_ending)
    raise KeyboardInterrupt


def _is_ending(number: int, frame: FrameType | None) -> None:
    """One more wish hastens nothing, and would leave undone what the first one began."""


def _handle(handler: signal._HANDLER) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
