"""The start of `gpuaas`: a signal during loading is answered like a signal at any other time.

It loads nothing but what that takes. A signal that comes meanwhile is kept until the program can
say that it was ended.
"""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn

SELDOM = 100_000
"""So many objects are made before garbage is looked for. What is loaded is none, and a command that

only looks on makes fewer: it spends a tenth of its time on that otherwise."""


def main() -> NoReturn:
    gc.set_threshold(SELDOM)
    kept: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        kept.append(number)

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, keep)
    try:
        sys.exit(import_module("reconciler.cli.main").main(lambda: bool(kept)))
    finally:
        # Nor is it searched once more for what ends with the process anyway.
        gc.freeze()
