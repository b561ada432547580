"""Leftovers: what of a uid is still on the host after its allocation is gone.

Everything is looked through, or the uid is left out of the answer: half a look proves nothing.
"""

from __future__ import annotations

import os
import pwd
import time
from contextlib import suppress
from functools import partial
from typing import Callable, Iterable, Iterator, Optional, Sequence, TypeVar

from .attached import OURS, TOPS
from .attachments import data_around, folders
from .finding import any_of, owned_below
from .holders import held_cards, unseen_cards
from .ipc import system_v
from .keyrings import kept_keys
from .mounts import Mount, mounts
from .passwd import OURS as OURS_BY_NAME
from .passwd import Accounts, User
from .paths import INSTANCES, holder
from .probes import BUDGET, ProbeError, Probes, printable, shortened
from .processes import running, told
from .sessions import told_sessions
from .silence import check_shares
from .volumes import VOLUMES

T = TypeVar("T")

MAX_WALK_SECONDS = 60.0
MAX_LOOKS = 3
MAX_KEPT = 1000

LOCAL_WITHOUT_DISK = frozenset(
    {"tmpfs", "ramfs", "overlay", "zfs", "devtmpfs", "hugetlbfs", "mqueue"}
)
PLACES_TO_MOUNT = (OURS, VOLUMES, *(f"{INSTANCES}/{top}" for top in TOPS))
NEVER_WRITTEN = frozenset({"squashfs", "erofs", "iso9660", "cramfs"})
SPOOLS = {"/var/spool/cron/crontabs/": "crontab", "/var/spool/cron/at": "at job"}
UNKNOWN = "unknown"
"""Before the sort of what could not be looked at: nobody knows whether there is any of it."""

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
    """Whether whose files are whose cannot be told here: what is his own is nobody's leftover."""
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
    return f"{word} {rest.partition(' ')[0]}" if word == UNKNOWN else word


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
    for owner, what in (*sockets(probes), *user_mounts(), *keys(probes)):
        if owner == uid:
            yield what


def sockets(probes: Probes) -> Iterator[tuple[int, str]]:
    """Every socket of the network, with its uid."""
    for protocol in SOCKETS:
        with suppress(FileNotFoundError):
            for line in probes.text("proc/net", protocol).splitlines()[1:]:
                fields = line.split()
                yield holder(int(fields[7])), f"socket {protocol} {fields[1]}"


def user_mounts() -> Iterator[tuple[int, str]]:
    """What somebody has mounted for himself, with his uid."""
    for mount in mounts():
        for option in mount.options:
            key, _, value = option.partition("=")
            if key == "user_id" and value.isdigit():
                yield int(value), f"mount {printable(mount.point)}"


def keys(probes: Probes) -> Iterator[tuple[int, str]]:
    """What the kernel keeps for a uid, with the uid; which keys these are it tells the owner."""
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
    """Files by uid on every local file system, each entered at its own place, never across."""
    check_queues(probes)
    found: dict[int, list[str]] = {uid: [] for uid in uids}
    points = not_entered(probes)
    for mount in places(probes):
        walk(mount, points, found, until)
    return found


def not_entered(probes: Probes) -> set[str]:
    """What is mounted, each looked at by itself, and the data of volumes, which is a project's.

    Nor what holds nothing but places to mount volumes at, where nobody but root comes in: whoever
    looks at one of these waits for its server. Raises ProbeError where another does not answer.
    """
    check_shares()
    return {mount.point for mount in mounts()}.union(folders(probes), PLACES_TO_MOUNT)


def check_queues(probes: Probes) -> None:
    """Raises ProbeError where there may be message queues that no mount shows."""
    if os.path.isdir(probes.at("proc/sys/fs/mqueue")) and not any(
        mount.kind == "mqueue" for mount in mounts()
    ):
        raise ProbeError("message queues cannot be listed: no mqueue is mounted")


def places(probes: Probes) -> Iterator[Mount]:
    """Local mounts; of a file system that is mounted twice, not what is seen at the first."""
    with open(probes.at("proc/filesystems")) as table:
        lines = [line.split() for line in table]
    pseudo = {fields[1] for fields in lines if fields[0] == "nodev"} - LOCAL_WITHOUT_DISK
    seen: list[Mount] = []
    visible = {mount.point: mount for mount in mounts()}
    for mount in sorted(visible.values(), key=lambda mount: (len(mount.root), mount.point)):
        if mount.kind in pseudo | NEVER_WRITTEN or mount.kind.startswith("fuse."):
            continue
        if not any(shows(other, mount, visible) for other in seen):
            seen.append(mount)
            yield mount


def shows(other: Mount, mount: Mount, visible: dict[str, Mount]) -> bool:
    """Whether all of `mount` is seen at `other` too, with nothing mounted over it there."""
    if other.device != mount.device or not below(mount.root, other.root):
        return False
    place = join(other.point, mount.root[len(other.root.rstrip("/")) :])
    covers = [point for point in visible if point != other.point and below(point, other.point)]
    return not any(below(place, point) or below(point, place) for point in covers)


def below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def join(point: str, rest: str) -> str:
    return (point.rstrip("/") + rest).rstrip("/") or "/"


def walk(mount: Mount, points: set[str], found: dict[int, list[str]], until: float) -> None:
    for uid, what in topmost(mount, points, any_of(sorted(found)), until):
        if len(found[uid]) < MAX_KEPT:
            found[uid].append(what)


def topmost(
    mount: Mount, points: set[str], who: Sequence[str], until: float
) -> Iterator[tuple[int, str]]:
    """What is owned by uids that pass the test; a folder stands for all that its uid has in there.

    What is owned inside of its containers is a tenant's, and what lies in the data of a volume its
    project's. Raises ProbeError when time is up, or where not everything could be looked at: what
    was not is not clean.
    """
    others = sorted(p for p in points if p != mount.point and below(p, mount.point))
    last: dict[int, str] = {}
    for owner, path in owned_below(mount.point, who, others, until):
        uid = holder(owner)
        if not below(path, last.get(uid, "\0")):
            data = data_around(path)
            last[uid] = data or path
            if not data:
                yield uid, named(mount, path)


def named(mount: Mount, path: str) -> str:
    if mount.kind == "mqueue":
        return f"mqueue {printable(path[len(mount.point) :])}"
    word = next((word for place, word in SPOOLS.items() if path.startswith(place)), "file")
    return f"{word} {printable(path)}"
