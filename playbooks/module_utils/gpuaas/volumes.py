"""Volumes: where the data of a storage is on a host, by its class.

A volume is a folder of its own below the place of its class, open to nobody but root: tenants come
to its data by what is mounted for them alone. Whose it is stands in there, and who has it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Optional

from .items import check_form
from .paths import ALLOCATION_ID, Refusal
from .systemd_mounts import unit_of

VOLUMES, RECORDS = "/var/lib/gpuaas/volumes", "/etc/gpuaas/volumes"
NAME = re.compile(r"[a-z](-?[a-z0-9])*")
PLACE = re.compile(r"(/[A-Za-z0-9._+@-]+)+")
SERVER = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
OPTION = re.compile(
    r"hard|soft|intr|noatime|nodiratime|nocto|vers=(3|4|4\.[012])|proto=(tcp|rdma)"
    r"|sec=(sys|krb5|krb5i|krb5p)|nconnect=([1-9]|1[0-6])"
    r"|(rsize|wsize|timeo|retrans|actimeo|acregmax|acdirmax)=[0-9]{1,8}"
    r"|port=([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)
"""None that undoes what all volumes are mounted with, and none without locks between hosts."""

NOT_PLACES = (
    *("/etc", "/proc", "/sys", "/dev", "/run", "/usr", "/boot", "/home"),
    *("/var/lib/gpuaas", "/gpuaas", "/tmp", "/var/tmp"),
)

DIRECTORY = {"path": str, "shared": bool}
LOOP = {"path": str, "filesystem": str}
NFS = {"server": str, "export": str, "options": [str]}
BACKENDS: dict[str, Any] = {"directory": DIRECTORY, "loop": LOOP, "nfs": NFS}

WHOSE, DATA = "volume.json", "data"
PROGRESS = "reopening"
"""How far it has come that files of one allocation become those of another."""


class Volume(NamedTuple):
    """`backend` is the word of it, `about` what its class says of it."""

    id: str
    backend: str
    about: dict[str, Any]

    @property
    def place(self) -> str:
        """The folder below which volumes of its class lie."""
        if self.backend == "nfs":
            return self.source
        path: str = self.about["path"]
        return path.rstrip("/")

    @property
    def folder(self) -> str:
        """Its own folder, with its data or the disk of it."""
        return f"{self.place}/{self.id}"

    @property
    def source(self) -> str:
        """Where it, or the share that it is on, is mounted; nothing is for a plain folder."""
        return f"{VOLUMES}/{self.id}"

    @property
    def data(self) -> str:
        return f"{self.source if self.backend == 'loop' else self.folder}/{DATA}"

    @property
    def disk(self) -> str:
        return f"{self.folder}/disk.img"

    @property
    def record(self) -> str:
        return f"{RECORDS}/{self.id}.json"

    @property
    def whose(self) -> str:
        """Where it says what it is."""
        return f"{self.folder}/{WHOSE}"

    @property
    def shared(self) -> bool:
        """Whether other hosts reach it as well."""
        return self.backend == "nfs" or bool(self.about.get("shared"))

    @property
    def source_unit(self) -> Optional[str]:
        return None if self.backend == "directory" else unit_of(self.source)


def backend(value: Any, what: str) -> None:
    """The form of a backend in an item; none where nobody knows any more what it was."""
    if not isinstance(value, dict) or len(value) > 1 or not set(value) <= {*BACKENDS}:
        raise Refusal("item_invalid", f"{what}: no backend")


def volume_of(id: str, stated: dict[str, Any]) -> Volume:
    """Judged again here: an id, and places that are no system's own."""
    if not ALLOCATION_ID.fullmatch(id):
        raise Refusal("item_invalid", f"no volume id: {id!r}")
    if not stated:
        raise Refusal("item_invalid", "no backend")
    ((word, about),) = stated.items()
    check_form(about, BACKENDS[word], word)
    for path in (about.get("path"), about.get("export")):
        if path is not None and (not PLACE.fullmatch(path) or {".", ".."} & set(path.split("/"))):
            raise Refusal("path_unsafe", f"no place for volumes: {path!r}")
    place = about.get("path")
    if place and any(place == one or place.startswith(f"{one}/") for one in NOT_PLACES):
        raise Refusal("path_unsafe", f"{place} is no place for volumes")
    if word == "loop" and about["filesystem"] not in ("ext4", "xfs"):
        raise Refusal("item_invalid", f"no file system: {about['filesystem']!r}")
    if word == "nfs" and not (
        SERVER.fullmatch(about["server"]) and all(map(OPTION.fullmatch, about["options"]))
    ):
        raise Refusal("item_invalid", "no share of a server")
    return Volume(id=id, backend=word, about=about)
