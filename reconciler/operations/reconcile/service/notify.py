"""Notes to the service manager about what a loop does: sd_notify(3), without a library."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

MAX_STATUS = 200


def notify(*words: str) -> None:
    """READY=1, STATUS=…, WATCHDOG=1, STOPPING=1; nothing where nobody wants to know."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place.startswith(("/", "@")):
        return
    address = "\0" + place[1:] if place.startswith("@") else place
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outlet:
        outlet.settimeout(1)
        outlet.connect(address)
        outlet.send("\n".join(words).encode())


def status(text: str) -> None:
    """One line for `systemctl status`, and a sign of life."""
    line = " ".join(text.split())[:MAX_STATUS]
    notify(f"STATUS={line}", "WATCHDOG=1")
