"""Ending a command from outside: every signal becomes exactly one KeyboardInterrupt.

What is under way is so left in order, lock and processes included. While hosts are at work,
`operations/signals` has its own say.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def end_by_signals() -> None:
    """Install the handlers for this process; ignored signals stay so, as `nohup` and `&` want
    it.
    """
    _handle(_end)


@contextmanager
def keys_left_to_another() -> Iterator[None]:
    """What is typed to end a command is meant for the program that has the terminal now.

    The signals are taken and not ignored, since a program inherits what is ignored.
    """
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGQUIT)}
    held = {one: handler for one, handler in before.items() if handler is not signal.SIG_IGN}
    try:
        for number in held:
            signal.signal(number, _is_anothers)
        yield
    finally:
        for number, handler in held.items():
            if signal.getsignal(number) is _is_anothers:
                signal.signal(number, handler)


def be_ended() -> None:
    """All is done and said: what comes now would only spoil the exit code."""
    _handle(signal.SIG_IGN)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    _handle(_is_ending)
    raise KeyboardInterrupt


def _is_anothers(number: int, frame: FrameType | None) -> None:
    """Whoever is in front of the terminal has had the same signal."""


def _is_ending(number: int, frame: FrameType | None) -> None:
    """One more wish hastens nothing, and would leave undone what the first one began."""


def _handle(handler: signal._HANDLER) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
