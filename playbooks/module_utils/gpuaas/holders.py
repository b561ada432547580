"""Cards that are held open: a device is judged when it is opened, never when it is handed on.

Whoever has been passed an open card by a neighbour keeps it when that neighbour is gone, and
whoever comes next would share it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Iterator

from .passwd import Accounts
from .probes import Probes
from .processes import running

MAJOR, SHARED = 195, range(254, 256)
"""Of NVIDIA's device nodes, and which minors among them are no cards."""

GIVEN = "run/systemd/system/user-{}.slice.d/70-gpuaas-devices.conf"
NODE = re.compile(r"^DeviceAllow=/dev/nvidia(\d+) rw$", re.MULTILINE)


def held_cards(probes: Probes) -> list[str]:
    """Processes of tenants that have a card open which is not given to them, each in words."""
    return [
        f"process {pid} {name} of {user.login} has /dev/nvidia{minor} open"
        for user in Accounts(probes.root).tenants()
        for pid, name in sorted(running(probes.root, user.uid).items())
        for minor in sorted(set(open_cards(probes, pid)) - given(probes, user.uid))
    ]


def open_cards(probes: Probes, pid: int) -> Iterator[int]:
    """Minors, by what is open and not by its name, which a process may choose."""
    folder = probes.at("proc", str(pid), "fd")
    with suppress(FileNotFoundError, ProcessLookupError):
        for name in os.listdir(folder):
            with suppress(FileNotFoundError):
                device = os.stat(os.path.join(folder, name)).st_rdev
                if os.major(device) == MAJOR and os.minor(device) not in SHARED:
                    yield os.minor(device)


def given(probes: Probes, uid: int) -> set[int]:
    try:
        return {int(minor) for minor in NODE.findall(probes.text(GIVEN.format(uid)))}
    except FileNotFoundError:
        return set()
