"""Device holders: who has a GPU open; access is checked on opening, never on handing on.

Whoever has been passed an open card by a neighbour keeps it when that neighbour is gone, and
whoever comes next would share it.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import FrozenSet, Iterable, NamedTuple, Optional, Tuple

from .cards import inquiry
from .open_devices import Handles, TooMany, identity_of
from .passwd import Accounts
from .paths import holder
from .probes import Probes, shortened
from .processes import alive, slice_of, unit_of

MAJOR, SHARED = 195, range(254, 256)
"""Of NVIDIA's device nodes, and which minors among them are no cards."""

GIVEN = "run/systemd/system/user-{}.slice.d/70-gpuaas-devices.conf"
NODE = re.compile(r"^DeviceAllow=/dev/nvidia(\d+) rw$", re.MULTILINE)
FIRST_OF_PEOPLE = 1000
OPEN, OTHERS = "open cards", 4

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


class Process(NamedTuple):
    """One that has, or may have, a card open: `minors` are seen, `whys` what nobody could see.

    `owners` are all uids that it runs as, and that of the slice which holds it.
    """

    pid: int
    name: str
    owners: Tuple[int, ...]
    minors: FrozenSet[int]
    whys: Tuple[str, ...]


def open_cards(probes: Probes) -> list[Process]:
    """Of every process of the host, whoever it is of, but for programs that keep cards."""
    tenants = {user.uid for user in Accounts(probes.root).tenants()}
    handles, keepers = Handles(probes, OTHERS + len(tenants)), programs(probes, KEEPERS)
    found = []
    for pid, name, uids in sorted(alive(probes.root)):
        owners = [holder(int(uid)) for uid in uids]
        inside = slice_of(probes.root, pid)
        owners += [] if inside is None else [inside]
        theirs = [owner for owner in owners if owner in tenants]
        if not theirs and program_of(probes, pid) in keepers:
            continue
        minors, whys = seen_of(handles, pid, (theirs or owners)[0], owners)
        if minors or whys:
            found.append(Process(pid, name, tuple(owners), frozenset(minors), tuple(whys)))
    return found


def seen_of(
    handles: Handles, pid: int, payer: int, owners: Iterable[int]
) -> tuple[set[int], list[str]]:
    """Cards by what is open and not by its name, which a process may choose."""
    of_people = any(owner >= FIRST_OF_PEOPLE for owner in owners)
    try:
        with handles.of_owner(payer):
            devices, whys = handles.look(pid, unlisted=of_people)
    except TooMany:
        return set(), ["more is open than can be looked at in time"]
    return {minor for major, minor in devices if major == MAJOR and minor not in SHARED}, whys


def held_cards(probes: Probes) -> list[str]:
    """Processes of tenants that have a card open which is not given to them, each in words."""
    return [
        f"process {one.pid} {one.name} of {user.login} has /dev/nvidia{minor} open"
        for user in Accounts(probes.root).tenants()
        for one in probes.once(OPEN, open_cards)
        if user.uid in one.owners
        for minor in sorted(one.minors - given(probes, user.uid))
    ]


def unseen_cards(probes: Probes) -> list[str]:
    """Processes of tenants that may have one where nobody sees it: any card may be among these."""
    return [
        f"process {one.pid} {one.name} of {user.login}: {why}"
        for user in Accounts(probes.root).tenants()
        for one in probes.once(OPEN, open_cards)
        if user.uid in one.owners
        for why in one.whys
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
    logins = {user.uid: user.login for user in Accounts(probes.root).users}
    found: dict[int, list[str]] = {}
    for one in probes.once(OPEN, open_cards):
        unit, owner = unit_of(probes.root, one.pid), one.owners[0]
        words = f"process {one.pid} {one.name} of {logins.get(owner, f'uid {owner}')}"
        for minor in sorted(one.minors):
            found.setdefault(minor, []).append(words + (f", {unit}" if unit else ""))
    return found


def hidden(probes: Probes) -> list[str]:
    """Processes that may have open files where nobody sees them, whoever they are of."""
    return [
        f"process {one.pid} {one.name} of uid {one.owners[0]}: {why}"
        for one in probes.once(OPEN, open_cards)
        for why in one.whys
    ]


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
    return identity_of(probes.at("proc", str(pid), "exe"))


def given(probes: Probes, uid: int) -> set[int]:
    try:
        return {int(minor) for minor in NODE.findall(probes.text(GIVEN.format(uid)))}
    except FileNotFoundError:
        return set()
