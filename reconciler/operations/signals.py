"""Signals during an apply: the first lets the running play finish, the second kills it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


def nobody_listens(forced: bool) -> None:
    """Where nobody watches, nobody is told."""


class Interrupts:
    """Counts, while it is entered, the signals by which people and systems end a process.

    SIGINT and SIGTERM count each time. SIGHUP is no impatience: a terminal that is closed says it
    besides, and more than once. SIGQUIT is all impatience. What was ignored before stays so.
    `on_wish` is called in the handler, with whether all is to be ended at once.
    """

    def __init__(self, on_wish: Callable[[bool], None] = nobody_listens) -> None:
        self._count = 0
        self._on_wish = on_wish
        self._before: dict[int, signal._HANDLER] = {}

    @property
    def asked(self) -> bool:
        """Nothing new may start."""
        return self._count >= 1

    @property
    def forced(self) -> bool:
        """What runs is to be ended now; its outcome is unknown."""
        return self._count >= 2

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _note(self, number: int, frame: FrameType | None) -> None:
        before = self._count
        match number:
            case signal.SIGHUP:
                self._count = max(self._count, 1)
            case signal.SIGQUIT:
                self._count = 2
            case _:
                self._count += 1
        if before < self._count <= 2:
            self._on_wish(self.forced)
