"""Volume record: the signed file on a host that says whose a volume is and who has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.model.host.signed_record import (
    HMAC,
    ID,
    STATE_ID,
    Fields,
    RecordError,
    SignedRecord,
    insist_on_fields,
    is_number,
    is_text,
    mapping_of,
    matching,
    signed_text,
)
from reconciler.model.records import dataclass
from reconciler.model.ref import is_name, parse_ref
from reconciler.model.state.volume import BackendWord

MOST_GIB = 10**9
BACKENDS = frozenset(word.value for word in BackendWord)
MODES = frozenset({"ro", "rw"})
ACCESS = frozenset({"single_writer", "multi_reader", "multi_writer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeHolder:
    """An allocation that has the volume, and on which machine."""

    allocation_id: str
    login: str
    machine: str
    mode: str
    mount_path: str
    access: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRecord(SignedRecord):
    """What a volume was when its host was last told.

    `gid` is None where nobody has an account. `holders` is None where nobody can say who has it.
    """

    class_name: str
    backend: Mapping[str, Any]
    size_gib: int
    gid: int | None
    holders: tuple[VolumeHolder, ...] | None = None

    @property
    def reaches_all(self) -> bool:
        """Whether other hosts reach the same data."""
        return BackendWord.NFS in self.backend or bool(
            self.backend.get(BackendWord.DIRECTORY, {}).get("shared")
        )


def read_volume_record(text: str) -> VolumeRecord:
    """Read a volume record. Raises RecordError for anything else; invalid holders are
    unknown.
    """
    both = mapping_of(text)
    told = both.get("record")
    if not isinstance(told, dict):
        raise RecordError("unreadable")
    insist_on_fields(told, _FIELDS, "record")
    ref = parse_ref(told["ref"])
    if ref is None or ref.kind != "storage" or not ref.project:
        raise RecordError("ref is that of no storage")
    return VolumeRecord(
        state_id=told["stateId"],
        ref=ref,
        id=told["id"],
        class_name=told["class"],
        backend=told["backend"],
        size_gib=told["sizeGiB"],
        gid=told["gid"] or None,
        signed=signed_text(told),
        hmac=told[HMAC],
        holders=_holders(both.get("holders")),
    )


def _holders(told: object) -> tuple[VolumeHolder, ...] | None:
    """All of them, or nobody knows."""
    if not isinstance(told, list):
        return None
    found = [_holder(one) for one in told]
    return None if None in found else tuple(one for one in found if one)


def _holder(told: object) -> VolumeHolder | None:
    if not isinstance(told, dict) or not all(is_text(told.get(key)) for key in _HOLDER):
        return None
    one = VolumeHolder(**{name: told[key] for key, name in _HOLDER.items()})
    sound = ID.fullmatch(one.allocation_id) and one.mode in MODES and one.access in ACCESS
    return one if sound else None


def _size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_GIB


def _backend(value: object) -> bool:
    """One word of those that there are, and what its class said of it."""
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= BACKENDS:
        return False
    return all(isinstance(about, dict) for about in value.values())


_HOLDER: Mapping[str, str] = {
    "allocation": "allocation_id",
    "login": "login",
    "machine": "machine",
    "mode": "mode",
    "mount_path": "mount_path",
    "access": "access",
}
_FIELDS: Fields = {
    "stateId": matching(STATE_ID),
    "ref": is_text,
    "id": matching(ID),
    "class": lambda value: isinstance(value, str) and is_name(value),
    "backend": _backend,
    "sizeGiB": _size,
    "gid": is_number,
    HMAC: is_text,
}
