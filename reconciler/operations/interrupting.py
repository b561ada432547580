"""Ctrl-C that leaves things true: the first ends after the play in hand, the second kills it."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupts:
    """Counts SIGINT and SIGTERM while it is entered; the old handlers come back at the end."""

    def __init__(self) -> None:
        self._count = 0
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
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
