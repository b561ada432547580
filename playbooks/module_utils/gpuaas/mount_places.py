"""Mount places: where an allocation has a volume mounted, and who is using it there.

The real mount stands at `/gpuaas/<allocation id>/<storage>`. What the tenant sees at its mount path
is a second one in the instance of that folder that is its login's: mounted on the host, it comes
and goes in open sessions too, whose namespaces hear of what the host mounts. Through the real one
nobody comes in but root, who has closed the folders above.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from .mounts import Mount
from .paths import INSTANCES, LOGIN, Refusal
from .systemd_mounts import unit_of
from .volumes import NAME, Volume

OURS = "/gpuaas"
TOPS = ("data", "datasets", "mnt", "workspace")
MOUNT_PATH = re.compile(r"/(data|datasets|mnt|workspace)(/[0-9A-Za-z_-][0-9A-Za-z._-]*)*")


class Seat(NamedTuple):
    """One volume as one allocation has it; `place` is where a plain folder lies, if it is one."""

    allocation: str
    login: str
    name: str
    mount_path: str
    place: str = ""

    @property
    def real(self) -> str:
        return f"{OURS}/{self.allocation}/{self.name}"

    @property
    def view(self) -> str:
        _, top, *rest = self.mount_path.split("/")
        return "/".join((INSTANCES, top, self.login, *rest))

    @property
    def places(self) -> tuple[str, str]:
        """What lies below first."""
        return self.real, self.view

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(map(unit_of, self.places))


def seat_of(item: dict[str, object], name: str, mount_path: str, volume: Optional[Volume]) -> Seat:
    if not NAME.fullmatch(name):
        raise Refusal("item_invalid", f"no name of a storage: {name!r}")
    if not MOUNT_PATH.fullmatch(mount_path):
        raise Refusal("path_unsafe", f"no mount path: {mount_path!r}")
    place = volume.place if volume and volume.backend == "directory" else ""
    return Seat(str(item["id"]), str(item["login"]), name, mount_path, place)


def all_units(volume: Volume, seat: Seat) -> tuple[str, ...]:
    source = volume.source_unit
    return (*((source,) if source else ()), *seat.units)


def volume_at(mount: Mount, visible: dict[str, Mount]) -> str:
    """The id of the volume whose data is mounted here; empty if it is none."""
    folder, _, data = mount.root.rpartition("/")
    if data != "data":
        return ""
    if folder:
        return folder.rpartition("/")[2]
    sources = (p for p, one in visible.items() if one.device == mount.device and one.root == "/")
    return next((p.rpartition("/")[2] for p in sources if p.startswith("/var/lib/gpuaas/")), "")


def shows(mount: Mount, id: str, source: Optional[Mount]) -> bool:
    """Whether the data of this volume is mounted here, or something of it.

    `source` is where its disk is mounted.
    """
    root = f"{mount.root}/"
    if f"/{id}/data/" in root:
        return True
    return source is not None and mount.device == source.device and root.startswith("/data/")


def login_of(view: str) -> str:
    """Whose view it is, by where it stands."""
    parts = view[len(INSTANCES) :].split("/")
    known = len(parts) > 2 and parts[1] in TOPS and LOGIN.fullmatch(parts[2])
    return parts[2] if known else ""
