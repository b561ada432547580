"""Uid conflicts: uids and gids of the tenants' range that belong to somebody else on this host.

By its accounts and groups, wherever it has them from; by who owns what lies where people have
something of theirs; and by the numbers that others were given for their containers.
"""

from __future__ import annotations

import os
from typing import Iterable, Iterator

from .passwd import GROUP, Accounts
from .paths import UIDS
from .probes import Probes, lines_of, open_below, unless_gone
from .stale_mounts import served_points
from .subids import holders_of_ranges

PLACES = ("home", "srv", "var/mail", "var/spool/cron/crontabs")
"""Where somebody who has no account any more may still own something."""

MOST = 4000
"""So many characters are told; what lies beyond is told as one, as if all of it were taken."""


def read_taken(probes: Probes) -> dict[str, str]:
    """`uid` and `gid` → ranges as `20001,20005-20007`; one of which none is taken is not there."""
    accounts = Accounts(probes.root)
    ours = {user.uid for user in accounts.tenants()}
    uids, gids = set(), set()
    for user in accounts.users:
        uids.add(user.uid)
        gids.add(0 if user.uid in ours else user.gid)
    gids |= {group.gid for group in accounts.groups if not GROUP.fullmatch(group.name)}
    uids |= set(known_elsewhere(probes, "passwd"))
    gids |= set(known_elsewhere(probes, "group"))
    uids |= set(owners(probes)) | set(holders_of_ranges(probes.root, accounts.tenants()))
    found = {"uid": told(uids - ours), "gid": told(gids - given_gids(accounts))}
    return {kind: ranges for kind, ranges in found.items() if ranges}


def known_elsewhere(probes: Probes, database: str) -> Iterator[int]:
    """By the host's other sources as well, such as a directory server, if it lists what it has."""
    if not probes.whole_host:
        return
    for line in lines_of("getent", database):
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isascii() and fields[2].isdigit():
            yield int(fields[2])


def given_gids(accounts: Accounts) -> set[int]:
    """Of projects: a group of ours has its number in its name."""
    return {
        group.gid
        for group in accounts.groups
        if (match := GROUP.fullmatch(group.name)) and match.group(1) == str(group.gid)
    }


def owners(probes: Probes) -> Iterator[int]:
    """Of what lies directly in these places, seen without following anything.

    Who serves what is mounted there is not asked: nobody may answer.
    """
    served = served_points() if probes.root == "/" else frozenset()
    for place in PLACES:
        folder = open_below(probes.root, place)
        if folder is None:
            continue
        try:
            for name in os.listdir(folder):
                if f"/{place}/{name}" in served:
                    continue
                # One that has just gone is nobody's; all others still are.
                with unless_gone():
                    yield os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
        finally:
            os.close(folder)


def told(numbers: Iterable[int]) -> str:
    """Those among the numbers of tenants, as ranges."""
    ranges: list[list[int]] = []
    length = 0
    for number in sorted(number for number in set(numbers) if number in UIDS):
        if ranges and (number == ranges[-1][1] + 1 or length >= MOST):
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
            length += len(f"{number}-{UIDS[-1]},")
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
