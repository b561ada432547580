"""A port of this machine's loopback: who listens there, and notice when it is ours."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable

LISTENERS = "/proc/net/tcp"
LISTENING = "0A"
LOOPBACK = "127.0.0.1"
TICK_SECONDS = 0.05


def free_port() -> int:
    """One that nobody has now; whose it is by the time it is used says `listener`."""
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def listener(port: int) -> int | None:
    """The uid of whoever listens at this port of 127.0.0.1; None if nobody does."""
    number = int.from_bytes(socket.inet_aton(LOOPBACK), sys.byteorder)
    place = f"{number:08X}:{port:04X}"
    with open(LISTENERS, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[1] == place and words[3] == LISTENING:
                return int(words[7])
    return None


def tell_when_ours(port: int, tell: Callable[[], None]) -> None:
    """Have `tell` called by a process beside this one as soon as we listen at `port`.

    Never if this process ends before, whatever program it goes on as, or while somebody else has
    the port: what is told leads whoever reads it there.
    """
    us = os.pidfd_open(os.getpid())
    try:
        if first := os.fork():
            os.waitpid(first, 0)
            return
        try:
            # A child of nobody's: the program that we go on as knows of none.
            if os.fork() == 0 and _comes_to_listen(port, us):
                tell()
        finally:
            os._exit(0)
    finally:
        os.close(us)


def _comes_to_listen(port: int, us: int) -> bool:
    """Before we, by our pidfd, have ended."""
    while not select.select([us], [], [], TICK_SECONDS)[0]:
        if listener(port) == os.geteuid():
            return True
    return False
