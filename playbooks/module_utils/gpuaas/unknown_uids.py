"""Unknown uids: what this host has of any uid that tenants may have, known or not.

For a state that was lost or is old: it cannot ask for what it has forgotten, so it asks for all.
Everything is looked through, or there is no answer: half a look proves nothing.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from functools import partial
from typing import Iterator

from .device_holders import held_cards, unseen_cards
from .file_search import Search, check_queues
from .find_files import between
from .ipc import all_system_v
from .passwd import Accounts
from .paths import holder
from .probes import Probes, printable
from .processes import alive, running
from .residue import UNKNOWN, sockets, steadily, user_mounts
from .sessions import told_sessions

MAX_NAMED, MAX_WORDS = 5, 200
CARDS = "cards"
SLICE = re.compile(r"user-(\d+)\.slice")


def read_strangers(probes: Probes, first: int, last: int) -> dict[str, list[str]]:
    """uid → what there is of it, some of it named; and cards that are held without being given."""
    return steadily(partial(_strangers, probes, range(first, last + 1)))


def _strangers(probes: Probes, uids: range, until: float) -> dict[str, list[str]]:
    accounts = Accounts(probes.root)
    ours = {user.uid for user in accounts.tenants()}
    found: dict[str, list[str]] = defaultdict(list)
    more: dict[str, int] = defaultdict(int)
    for uid, what in of_anybody(probes, uids, accounts, until):
        if uid in uids or uid in ours:
            key = str(uid)
            if len(found[key]) < MAX_NAMED:
                found[key].append(what[:MAX_WORDS])
            else:
                more[key] += 1
    for key, number in more.items():
        found[key].append(f"and {number} more")
    if held := [*held_cards(probes), *unseen_cards(probes)]:
        found[CARDS] = [what[:MAX_WORDS] for what in held[:MAX_NAMED]]
    return dict(found)


def of_anybody(
    probes: Probes, uids: range, accounts: Accounts, until: float
) -> Iterator[tuple[int, str]]:
    """Of any uid; files alone are looked for by `uids`. Raises where any of it cannot be told."""
    for user in accounts.users:
        yield user.uid, f"account {printable(user.login)}"
    yield from run_by_anybody(probes, uids)
    for kind, id, _, owners in all_system_v(probes.root):
        yield from ((owner, f"{kind} {id}") for owner in dict.fromkeys(map(holder, owners)))
    yield from sockets(probes)
    yield from user_mounts()
    check_queues(probes)
    search = Search(probes, between(uids[0], uids[-1]), until, accounts.tenants())
    yield from search.found()
    yield from ((uid, f"{UNKNOWN} {what}") for uid, what in search.unread)


def run_by_anybody(probes: Probes, uids: range) -> Iterator[tuple[int, str]]:
    """Processes by any of their uids and by the slice that they are in, and open sessions."""
    for pid, name, owners in alive(probes.root):
        for owner in dict.fromkeys(holder(int(one)) for one in owners):
            yield owner, f"process {pid} {name}"
    for uid in slices(probes):
        if uid in uids:
            for pid, called in sorted(running(probes.root, uid).items()):
                yield uid, f"process {pid} {called} in its slice"
    for session, told in told_sessions(probes.root):
        if told.get("UID", "").isdigit():
            yield int(told["UID"]), f"session {printable(session)}"


def slices(probes: Probes) -> list[int]:
    """uids that systemd has a slice of; it makes the first one when somebody logs in."""
    try:
        names = os.listdir(probes.at("sys/fs/cgroup/user.slice"))
    except FileNotFoundError:
        return []
    return sorted(int(match.group(1)) for name in names if (match := SLICE.fullmatch(name)))
