"""Mounts by systemd: tried for a while, and complete or absent afterwards, with the cause.

An unmount that only hides what is mounted is none, and nothing is taken from under anybody.
"""

from __future__ import annotations

import time
from typing import Callable

from .files import put_link
from .mounts import mounted_at
from .paths import UNITS, Refusal, Tree, unit_name
from .probes import ProbeError, call
from .programs import must, tried

WANTS = f"{UNITS}/multi-user.target.wants"
PATIENCE_SECONDS, REST_SECONDS = 12.0, 0.5
"""What it lies on may come a moment later."""

GRACE_SECONDS = 3.0
"""For whoever is about to leave."""


def unit_of(place: str) -> str:
    return f"{UNITS}/{unit_name(place)}"


def link_of(unit: str) -> str:
    """What takes a unit into the boot, without which the boot goes on all the same."""
    return f"{WANTS}/{unit.rpartition('/')[2]}"


def take_up(tree: Tree, *units: str) -> None:
    """systemd knows these as they are written, and starts them with the host."""
    for unit in units:
        put_link(tree, link_of(unit), unit)
    names = [unit.rpartition("/")[2] for unit in units]
    stale = must("systemctl", "show", "--property=NeedDaemonReload", *names)
    if (tree.changed or "=yes" in stale) and not tree.dry:
        must("systemctl", "daemon-reload")


def mount(tree: Tree, place: str) -> None:
    """Raises Refusal where it does not come up within a while; nothing stands half mounted then."""
    tree.changed = True
    if tree.dry:
        return
    unit, until = unit_name(place), time.monotonic() + PATIENCE_SECONDS
    while True:
        tried("systemctl", "reset-failed", unit)
        why = tried("systemctl", "start", unit)
        if not why and mounted_at(place) is not None:
            return
        if time.monotonic() > until:
            tried("systemctl", "stop", "--no-block", unit)
            raise Refusal("volume_not_mounted", f"{place}: {_journal(unit) or why or unit}")
        time.sleep(REST_SECONDS)


def unmount(tree: Tree, place: str, users: Callable[[], str]) -> None:
    """Raises Refusal, with its `users`, where it does not let go within a moment."""
    until = time.monotonic() + GRACE_SECONDS
    while mounted_at(place) is not None:
        tree.changed = True
        if tree.dry:
            return
        why = tried("systemctl", "stop", unit_name(place))
        if mounted_at(place) is not None:
            why = tried("umount", "--no-canonicalize", place)
        if mounted_at(place) is not None:
            if time.monotonic() > until:
                who = users()
                raise Refusal("storage_busy", f"{place}: " + (f"in use by {who}" if who else why))
            time.sleep(REST_SECONDS)


def _journal(unit: str) -> str:
    """What mount(8) itself said of it last."""
    try:
        of = ("-u", unit, "-t", "mount", "-n", "2")
        said = call("journalctl", "-q", "-o", "cat", "--no-pager", *of).stdout
    except ProbeError:
        return ""
    return " ".join(said.split())[-300:]
