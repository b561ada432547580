"""Residue: what a uid still has on the host after its allocation is gone.

Everything is looked through, or the uid is left out of the answer: half a look proves nothing.
"""

from __future__ import annotations

import os
import pwd
import time
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Callable, Iterable, Iterator, Optional, TypeVar

from .device_holders import held_cards, unseen_cards
from .file_search import Search, check_queues
from .find_files import any_of
from .ipc import system_v
from .keyrings import kept_keys
from .mounts import mounts
from .passwd import OURS as OURS_BY_NAME
from .passwd import Accounts, User
from .paths import holder
from .probes import BUDGET, ProbeError, Probes, printable, shortened
from .processes import running, told
from .sessions import told_sessions

T = TypeVar("T")

MAX_WALK_SECONDS = 60.0
MAX_LOOKS = 3
MAX_KEPT = 1000

UNKNOWN = "unknown"
"""Before the sort of what could not be looked at: nobody knows whether there is any of it."""

APART = "apart"
"""Before what could not be looked through and is a living neighbour's own."""

SOCKETS = ("tcp", "tcp6", "udp", "udp6")


def read_leftovers(probes: Probes, uids: Iterable[int]) -> dict[str, list[str]]:
    """uid → what is left of it; a uid that could not be checked in full is left out."""
    asked = sorted(set(uids))
    if not asked:
        return {}
    others = probes.ask("leftovers", lambda p: {u.uid: u.login for u in foreign(p)})
    asked = [uid for uid in asked if not is_of_another(probes, uid, others)]
    files = probes.ask("leftovers", lambda p: steadily(partial(files_of, p, asked)))
    held = probes.ask("leftovers", open_cards)
    found: dict[str, list[str]] = {}
    for uid in asked:
        live = probes.ask("leftovers", partial(living, uid))
        if live is not None and files is not None and held is not None:
            found[str(uid)] = by_sort([*live, *held, *sorted(files[uid])])
    return found


def open_cards(probes: Probes) -> list[str]:
    held = map("open {}".format, held_cards(probes))
    return [*held, *map(f"{UNKNOWN} open {{}}".format, unseen_cards(probes))]


def foreign(probes: Probes) -> Iterator[User]:
    """Accounts that are none of ours."""
    accounts = Accounts(probes.root)
    ours = {user.uid for user in accounts.tenants()}
    return (user for user in accounts.users if user.uid not in ours)


def is_of_another(probes: Probes, uid: int, others: Optional[dict[int, str]]) -> bool:
    """Whether whose files are whose cannot be told here: what is their own is nobody's leftover."""
    name = "" if others is None else others.get(uid) or account_elsewhere(uid)
    if name:
        said = f"uid {uid} is that of {name} here, whose own nobody names as left behind"
        probes.problems.append({"probe": "leftovers", "message": printable(said)})
    return bool(name) or others is None


def account_elsewhere(uid: int) -> str:
    """Who has it by the host's other sources of accounts; ours stand in its own file."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return ""
    return "" if OURS_BY_NAME.fullmatch(user.pw_gecos) else user.pw_name


def by_sort(found: list[str]) -> list[str]:
    """Of each sort as much as there is room for, so that none crowds out another."""
    return [
        one
        for word in dict.fromkeys(map(sort_of, found))
        for one in shortened([what for what in found if sort_of(what) == word])
    ]


def sort_of(what: str) -> str:
    """Its first word, and what it is that is unknown."""
    word, rest = what.partition(" ")[::2]
    return f"{word} {rest.partition(' ')[0]}" if word in (UNKNOWN, APART) else word


def living(uid: int, probes: Probes) -> list[str]:
    """What runs, is logged in, or is held by the kernel. Raises where any of it cannot be told."""
    return [*ran_by(probes, uid), *held_for(probes, uid)]


def ran_by(probes: Probes, uid: int) -> Iterator[str]:
    for pid, name in sorted(running(probes.root, uid).items()):
        yield f"process {told(probes.root, pid, name)}"
    for session, about in told_sessions(probes.root):
        if about.get("UID") == str(uid):
            yield f"session {printable(session)}"


def held_for(probes: Probes, uid: int) -> Iterator[str]:
    for kind, id, _ in system_v(probes.root, uid):
        yield f"{kind} {id}"
    for owner, what in chain(sockets(probes), user_mounts(), keys(probes)):
        if owner == uid:
            yield what


NOBODYS = "0"


def sockets(probes: Probes) -> Iterator[tuple[int, str]]:
    """Every socket of the network that somebody has, with its uid.

    One without a number is nobody's any more: the kernel sends the rest, for as long as whoever is
    to take it likes.
    """
    for protocol in SOCKETS:
        with suppress(FileNotFoundError), open(probes.at("proc/net", protocol)) as table:
            next(table, "")
            for line in table:
                fields = line.split()
                if fields[9] == NOBODYS:
                    continue
                yield holder(int(fields[7])), f"socket {protocol} {fields[1]}"


def user_mounts() -> Iterator[tuple[int, str]]:
    """What somebody has mounted for themselves, with their uid."""
    for mount in mounts():
        for option in mount.options:
            key, _, value = option.partition("=")
            if key == "user_id" and value.isdigit():
                yield int(value), f"mount {printable(mount.point)}"


CONTAINER = "run/systemd/container"
"""As systemd writes it where it was started in one."""


def keys(probes: Probes) -> Iterator[tuple[int, str]]:
    """What the kernel keeps for a uid, with the uid; which keys these are it tells the owner.

    Of a kernel that is shared with other containers nobody can say whose uid that is: what is this
    host's is done away with there too, and is no matter of its proof.
    """
    if os.path.exists(probes.at(CONTAINER)):
        return
    for uid, number in kept_keys(probes.root):
        inside = "" if holder(uid) == uid else f" for uid {uid}"
        yield holder(uid), f"key {number} kept by the kernel{inside}"


def steadily(look: Callable[[float], T]) -> T:
    """What is found until a moment, which `look` is told. Raises ProbeError.

    What was unmounted meanwhile, as services do when they start, is no reason to know nothing: then
    one looks again.
    """
    until = time.monotonic() + BUDGET.left(MAX_WALK_SECONDS)
    for _ in range(MAX_LOOKS - 1):
        before = {mount.point for mount in mounts()}
        try:
            return look(until)
        except ProbeError:
            if before <= {mount.point for mount in mounts()}:
                raise
    return look(until)


def files_of(probes: Probes, uids: list[int], until: float) -> dict[int, list[str]]:
    """Files by uid, and what of living neighbours could not be looked through.

    That is theirs to keep, reached by nobody else, and goes with them.
    """
    check_queues(probes)
    found: dict[int, list[str]] = {uid: [] for uid in uids}
    neighbours = [user for user in Accounts(probes.root).tenants() if user.uid not in found]
    search = Search(probes, any_of(sorted(found)), until, neighbours)
    for uid, what in search.found():
        if len(found[uid]) < MAX_KEPT:
            found[uid].append(what)
    for _, what in search.unread:
        for uid in uids:
            found[uid].append(f"{APART} {what}")
    return found
