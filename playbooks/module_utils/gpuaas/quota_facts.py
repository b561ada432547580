"""Facts about quotas: whether each tenant's is in force, and how each file system limits them.

A file system that limits nobody is no fault of a tenant's: it is reported by itself.
"""

from __future__ import annotations

import os
from typing import Iterator, NamedTuple, Optional

from .passwd import Accounts
from .paths import INSTANCES
from .probes import ProbeError, Probes, open_below, printable
from .projects import belongs
from .quota_shares import FileSystem, Share, file_systems, read_shares, why_of
from .quotactl import PROJECT, USER, Limits, limits_of
from .quotas import storing, wanted
from .subids import given

NAMES = {PROJECT: "project", USER: "uid"}
ALL = "of each tenant"
UNREADABLE = "unreadable"

HOARDERS = frozenset({"xfs"})
"""They keep a record of each number that a file ever had, in nobody's share and for good; whoever

owns a file can give it one after the other.
"""


class Look(NamedTuple):
    """File systems by device number, shares by uid, and the devices on which there is storage.

    By uid as well, what is otherwise than written, and why something is not in force.
    """

    systems: dict[int, FileSystem]
    shares: dict[int, Optional[Share]]
    stored: frozenset[str]
    wrong: dict[int, list[str]]
    failed: dict[int, list[str]]


def read_quotas(probes: Probes) -> dict[str, str]:
    """Login → `2 of 8`, its share in slots, where all is in force that can be; else what is not."""
    found = probes.once("quotas", _look)
    logins = {user.uid: user.login for user in Accounts(probes.root).tenants()}
    told = {}
    for uid, share in found.shares.items():
        if share is None:
            told[printable(logins.get(uid, str(uid)))] = UNREADABLE
        else:
            wrong = found.wrong[uid]
            but = f", but {'; '.join(wrong)}" if wrong else ""
            told[share.login] = printable(f"{share.slots} of {share.of}{but}")
    return told


def read_enforcement(probes: Probes) -> str:
    """`of each tenant`, or by what each file system bounds them, and whom it does not."""
    found = probes.once("quotas", _look)
    systems = found.systems.values()
    if not any(system.kinds for system in systems):
        names = sorted(_name(system) for system in systems)
        return printable(f"none: {', '.join(names) or 'nothing is known of their file systems'}")
    words = sorted(_word(system, found.stored) for system in systems)
    lacking = list(_lacking(probes, found))
    bounds = all(
        _bounds_by_uid(system, found.stored) and system.mount.kind not in HOARDERS
        for system in systems
    )
    return ALL if bounds and not lacking else printable(f"in part: {', '.join(words + lacking)}")


def _look(probes: Probes) -> Look:
    systems, shares = file_systems(probes.root), read_shares(probes.root)
    found = Look(systems, shares, storing(probes.root), {}, {})
    for uid, share in shares.items():
        wrong, failed = found.wrong.setdefault(uid, []), found.failed.setdefault(uid, [])
        for number, system in systems.items() if share is not None else ():
            if share is None or not system.kinds:
                continue
            if system.point in share.failed:
                failed.append(share.failed[system.point])
                continue
            try:
                wrong += _differing(probes, share, number, found)
            except OSError as error:
                failed.append(why_of(error))
    return found


def _differing(probes: Probes, share: Share, number: int, found: Look) -> Iterator[str]:
    system = found.systems[number]
    room = share.rooms.get(system.point)
    if room is None:
        yield f"nothing yet at {system.point}"
        return
    if not share.project:
        yield f"counted at {system.point} by a number that others know"
        return
    for kind, limits in wanted(system, room.limits, found.stored).items():
        has = limits_of(system.device, kind, share.number(kind))
        if has != limits:
            yield f"{_told(has)} at {system.point} by {NAMES[kind]}, not {_told(limits)}"
    for parent, place in share.places.items():
        there = _is_on(probes.at(parent), number)
        if there and not _is_counted(probes, place, share.project, number):
            yield f"{place} is not counted"


def _is_on(folder: str, number: int) -> bool:
    return os.path.isdir(folder) and os.stat(folder).st_dev == number


def _is_counted(probes: Probes, place: str, project: int, number: int) -> bool:
    """Of a home that is not there, or no folder, its path tells; one may lie elsewhere."""
    try:
        folder = open_below(probes.root, place[1:])
    except ProbeError:
        return True
    if folder is None:
        return not place.startswith(f"{INSTANCES}/")
    try:
        return os.fstat(folder).st_dev != number or belongs(folder, project)
    finally:
        os.close(folder)


def _told(limits: Limits) -> str:
    return f"{limits.kib} KiB and {limits.files} files" if any(limits) else "no limit"


def _name(system: FileSystem) -> str:
    name = f"{system.mount.kind} at {system.point}"
    return f"{name} ({system.why})" if system.why else name


def _word(system: FileSystem, stored: frozenset[str]) -> str:
    name = _name(system)
    if not system.kinds:
        return f"{name} by nothing"
    if _bounds_by_uid(system, stored):
        but = ", but not what it keeps of numbers (chattr -p)"
        return f"{name} by project and uid{but if system.mount.kind in HOARDERS else ''}"
    why = " as storage lies on it," if USER in system.kinds else ""
    return f"{name} by project alone,{why} which owners of files can change"


def _bounds_by_uid(system: FileSystem, stored: frozenset[str]) -> bool:
    return USER in system.kinds and system.mount.device not in stored


def _lacking(probes: Probes, found: Look) -> Iterator[str]:
    tenants = {user.uid: user.login for user in Accounts(probes.root).tenants()}
    for uid, login in sorted(tenants.items()):
        if uid not in found.shares:
            yield f"not yet of {login}"
        elif found.shares[uid] is None:
            yield f"not of {login}: {UNREADABLE}"
        elif why := [*found.failed[uid], *found.wrong[uid]]:
            yield f"not of {login}: {why[0]}"
    if set(given(probes.root)) & {*tenants.values()}:
        yield "numbers inside of containers by neither"
