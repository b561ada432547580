"""Signals of a loop: SIGUSR1 and SIGHUP shorten its sleep, SIGTERM and SIGINT end it in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from reconciler.operations.signals import Interrupts, nobody_listens

WAKING = (signal.SIGUSR1, signal.SIGHUP)


class LoopSignals(Interrupts):
    """Entered once, around all rounds. `asked` after the first wish to end, `forced` after two.

    `woken` is set by whatever shortens the sleep, and cleared by whoever goes to sleep.
    """

    def __init__(self, on_wish: Callable[[bool], None] = nobody_listens) -> None:
        super().__init__(on_wish)
        self.woken = threading.Event()

    def __enter__(self) -> LoopSignals:
        super().__enter__()
        if threading.current_thread() is threading.main_thread():
            for number in WAKING:
                self._before.setdefault(number, signal.getsignal(number) or signal.SIG_DFL)
                signal.signal(number, self._wake)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)

    def _note(self, number: int, frame: FrameType | None) -> None:
        super()._note(number, frame)
        self.woken.set()

    def _wake(self, number: int, frame: FrameType | None) -> None:
        self.woken.set()
