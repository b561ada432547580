"""File search: files of some uids on the local file systems of a host.

What a living tenant has to itself is looked through apart from all else, in a time of its own: it
may hold any number of files, and be changed without end.
"""

from __future__ import annotations

import os
import time
from typing import Iterable, Iterator, Sequence

from .attachments import data_around, folders
from .find_files import owned_below
from .mount_places import OURS, TOPS
from .mounts import Mount, mounts
from .passwd import User
from .paths import INSTANCES, holder
from .probes import ProbeError, Probes, printable
from .stale_mounts import is_served, room_of
from .volumes import VOLUMES

SHARE_OF_HOST = 0.7
"""Of the time: for what is no living tenant's own."""

OWN = ("/home/{login}", "/var/lib/gpuaas/scratch/{id}")
OWN_INSTANCES = ("shm", "tmp", "var-tmp")

LOCAL_WITHOUT_DISK = frozenset(
    {"tmpfs", "ramfs", "overlay", "zfs", "devtmpfs", "hugetlbfs", "mqueue"}
)
PLACES_TO_MOUNT = (OURS, VOLUMES, *(f"{INSTANCES}/{top}" for top in TOPS))
NEVER_WRITTEN = frozenset({"squashfs", "erofs", "iso9660", "cramfs"})
SPOOLS = {"/var/spool/cron/crontabs/": "crontab", "/var/spool/cron/at": "at job"}


class Search:
    """By the test of `find` in `who`, until a moment; `living` are those who are not looked for.

    `unread` names what of a living tenant's own could not be looked through, by its uid.
    """

    def __init__(
        self, probes: Probes, who: Sequence[str], until: float, living: Iterable[User]
    ) -> None:
        self.unread: list[tuple[int, str]] = []
        self._who, self._until = who, until
        self._points, self._places = not_entered(probes), list(places(probes))
        self._own = {user: own_places(user) for user in living}

    def found(self) -> Iterator[tuple[int, str]]:
        """Of every local file system, each entered at its own place, never across.

        Raises ProbeError where not all could be looked at that is no living tenant's own.
        """
        own = [path for paths in self._own.values() for path in paths]
        aside, until = self._points.union(own), self._until
        if own:
            now = time.monotonic()
            until = now + SHARE_OF_HOST * (self._until - now)
        for mount in self._places:
            if not any(below(mount.point, path) for path in own):
                yield from topmost(mount, aside, self._who, until)
        for at, (user, paths) in enumerate(self._own.items()):
            now = time.monotonic()
            share = now + max(0.0, self._until - now) / (len(self._own) - at)
            yield from self._found_at(user, paths, share)

    def _found_at(self, user: User, paths: list[str], until: float) -> Iterator[tuple[int, str]]:
        further = [one.point for one in self._places if any(below(one.point, p) for p in paths)]
        for path in dict.fromkeys([*paths, *further]):
            start = Mount(point=path, device="", root="/", kind="", options=())
            try:
                if os.path.lexists(path):
                    yield from topmost(start, self._points, self._who, until)
            except ProbeError as error:
                self.unread.append((user.uid, f"file {printable(path)} of {user.login}: {error}"))


def own_places(user: User) -> list[str]:
    id = user.gecos.rpartition(" ")[2]
    return [
        *(place.format(login=user.login, id=id) for place in OWN),
        *(f"{INSTANCES}/{place}/{user.login}" for place in OWN_INSTANCES),
    ]


def not_entered(probes: Probes) -> set[str]:
    """What is mounted, each looked at by itself, and the data of volumes, which is a project's.

    Nor what holds nothing but places to mount volumes at, where nobody but root comes in.
    """
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


def behind(path: str, others: Iterable[str]) -> bool:
    """Whether nobody comes so far as to see it who enters none of these."""
    return any(path != other and below(path, other) for other in others)


def join(point: str, rest: str) -> str:
    return (point.rstrip("/") + rest).rstrip("/") or "/"


def topmost(
    mount: Mount, points: Iterable[str], who: Sequence[str], until: float
) -> Iterator[tuple[int, str]]:
    """What is owned by uids that pass the test; a folder stands for all that its uid has in there.

    What is owned inside of its containers is a tenant's, and what lies in the data of a volume its
    project's. Raises ProbeError when time is up, or where not everything could be looked at: what
    was not is not clean.
    """
    others = sorted(p for p in points if p != mount.point and below(p, mount.point))
    served = [one for one in mounts() if is_served(one)]
    for one in served:
        if below(mount.point, one.point):
            room_of(one.point)
    aside = [one for one in served if one.point in others and not behind(one.point, others)]
    last: dict[int, str] = {}
    for owner, path in owned_below(mount.point, who, others, until, aside):
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
