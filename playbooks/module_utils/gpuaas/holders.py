"""Cards that are held open: a device is judged when it is opened, never when it is handed on.

Whoever has been passed an open card by a neighbour keeps it when that neighbour is gone, and
whoever comes next would share it.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import Iterable, Optional

from .cards import inquiry
from .handles import Handles
from .passwd import Accounts
from .paths import holder
from .probes import Probes, shortened
from .processes import alive, running, unit_of

MAJOR, SHARED = 195, range(254, 256)
"""Of NVIDIA's device nodes, and which minors among them are no cards."""

GIVEN = "run/systemd/system/user-{}.slice.d/70-gpuaas-devices.conf"
NODE = re.compile(r"^DeviceAllow=/dev/nvidia(\d+) rw$", re.MULTILINE)
FIRST_OF_PEOPLE = 1000

KEEPERS = (
    "usr/bin/nvidia-persistenced",
    "usr/sbin/nvidia-persistenced",
    "usr/bin/nv-hostengine",
    "usr/bin/dcgm-exporter",
    "usr/local/bin/dcgm-exporter",
    "usr/bin/nv-fabricmanager",
    "usr/bin/nvidia-imex",
    "usr/bin/nvidia-powerd",
    "opt/nvidia/nvlsm/sbin/nvlsm",
    "usr/bin/nvidia-smi",
)
"""Programs that keep cards or watch them, and run nobody's code. Documented in docs/proof.md."""


def held_cards(probes: Probes) -> list[str]:
    """Processes of tenants that have a card open which is not given to them, each in words."""
    handles = Handles(probes)
    return [
        f"process {pid} {name} of {user.login} has /dev/nvidia{minor} open"
        for user in Accounts(probes.root).tenants()
        for pid, name in sorted(running(probes.root, user.uid).items())
        for minor in sorted(cards_of(handles, pid) - given(probes, user.uid))
    ]


def unseen_cards(probes: Probes) -> list[str]:
    """Processes of tenants that may have one where nobody sees it: any card may be among these."""
    handles = Handles(probes)
    return [
        f"process {pid} {name} of {user.login}: {why}"
        for user in Accounts(probes.root).tenants()
        for pid, name in sorted(running(probes.root, user.uid).items())
        for why in handles.unseen(pid)
    ]


def read_holders(probes: Probes) -> dict[str, list[str]]:
    """By UUID of each card whose device node is known: who has it open, whoever it is.

    Of two that say to have one node, nothing is known.
    """
    minors = {}
    for address, row in inquiry(probes).rows.items():
        card = inquiry(probes).log.get(address)
        minor = card.told.get("minor_number", "") if card else ""
        if minor.isascii() and minor.isdigit():
            minors[row["uuid"]] = int(minor)
    by_minor, anywhere = holders_by_minor(probes), hidden(probes)
    told = list(minors.values())
    return {
        uuid: shortened([*by_minor.get(minor, []), *anywhere])
        for uuid, minor in minors.items()
        if told.count(minor) == 1
    }


def holders_by_minor(probes: Probes) -> dict[int, list[str]]:
    accounts, handles = Accounts(probes.root), Handles(probes)
    logins = {user.uid: user.login for user in accounts.users}
    tenants = {user.uid for user in accounts.tenants()}
    keepers = programs(probes, KEEPERS)
    found: dict[int, list[str]] = {}
    for pid, name, uids in sorted(alive(probes.root)):
        minors = cards_of(handles, pid)
        owners = {holder(int(uid)) for uid in uids}
        if not minors or (not owners & tenants and program_of(probes, pid) in keepers):
            continue
        unit, owner = unit_of(probes.root, pid), holder(int(uids[0]))
        words = f"process {pid} {name} of {logins.get(owner, f'uid {owner}')}"
        for minor in sorted(minors):
            found.setdefault(minor, []).append(words + (f", {unit}" if unit else ""))
    return found


def hidden(probes: Probes) -> list[str]:
    """Processes of people that may have open files where nobody sees them, whoever they are of."""
    handles, found = Handles(probes), []
    for pid, name, uids in sorted(alive(probes.root)):
        if any(int(uid) >= FIRST_OF_PEOPLE for uid in uids):
            owner = holder(int(uids[0]))
            whys = handles.unseen(pid)
            found += [f"process {pid} {name} of uid {owner}: {why}" for why in whys]
    return found


def cards_of(handles: Handles, pid: int) -> set[int]:
    """Minors, by what is open and not by its name, which a process may choose."""
    devices = handles.of(pid)
    return {minor for major, minor in devices if major == MAJOR and minor not in SHARED}


def programs(probes: Probes, paths: Iterable[str]) -> set[tuple[int, int]]:
    """Those that are there and that nobody but root can have changed, by device and inode."""
    found = set()
    for path in paths:
        with suppress(OSError):
            about = os.stat(probes.at(path))
            if stat.S_ISREG(about.st_mode) and about.st_uid == 0 and not about.st_mode & 0o022:
                found.add((about.st_dev, about.st_ino))
    return found


def program_of(probes: Probes, pid: int) -> Optional[tuple[int, int]]:
    """The very file that runs: a name is chosen, and a container has paths of its own."""
    try:
        about = os.stat(probes.at("proc", str(pid), "exe"))
    except OSError:
        return None
    return about.st_dev, about.st_ino


def given(probes: Probes, uid: int) -> set[int]:
    try:
        return {int(minor) for minor in NODE.findall(probes.text(GIVEN.format(uid)))}
    except FileNotFoundError:
        return set()
