"""Descriptor: the signed file on a host that says what one allocation is, read strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.model.host.capacity import Shape
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
from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref, is_name, parse_ref

DESCRIPTOR_VERSION = 2
_LOGIN = re.compile(r"[a-z][a-z0-9-]{0,26}-[a-z2-7]{4}")
_COMMIT = re.compile(r"[0-9a-f]{0,64}")
_SLOT_KEYS = frozenset({"name", "uuid", "pciAddress"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor(SignedRecord):
    """What an allocation was when its host was last told.

    `uid` and `gid` are None without an account, `expires_at` is empty without an end.
    """

    login: str
    uid: int | None
    gid: int | None
    owner: str
    sku: str
    node: str
    shape: Shape
    slots: tuple[str, ...]
    commit: str
    expires_at: str = ""


def read_descriptor(text: str) -> Descriptor:
    """Read a descriptor. Raises RecordError for anything else, or an unknown version."""
    told = mapping_of(text)
    version = told.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version not in _OF_VERSION:
        raise RecordError("of no version that is known")
    insist_on_fields(told, _OF_VERSION[version], "descriptor")
    ref = parse_ref(told["ref"])
    if ref is None or ref != Ref("allocation", told["project"], told["name"]):
        raise RecordError("ref is not that of its project and name")
    return Descriptor(
        state_id=told["stateId"],
        ref=ref,
        id=told["id"],
        login=told["login"],
        uid=told["uid"] or None,
        gid=told["gid"] or None,
        owner=told["owner"],
        sku=told["sku"],
        node=told["node"],
        shape=Shape(told["shape"]),
        slots=tuple(slot["name"] for slot in told["slots"]),
        commit=told["commit"],
        signed=signed_text(told),
        hmac=told[HMAC],
        expires_at=told.get("expiresAt", ""),
    )


def _name(value: object) -> bool:
    return isinstance(value, str) and is_name(value)


def _moment(value: Any) -> bool:
    return isinstance(value, str) and parse_moment(value) is not None


def _slots(value: object) -> bool:
    return isinstance(value, list) and bool(value) and _distinct(value) and all(map(_slot, value))


def _slot(value: Any) -> bool:
    told = isinstance(value, dict) and value.keys() == _SLOT_KEYS
    return told and _name(value["name"]) and is_text(value["uuid"]) and is_text(value["pciAddress"])


def _distinct(slots: Iterable[Any]) -> bool:
    names = [slot.get("name") for slot in slots if isinstance(slot, dict)]
    return len(set(map(str, names))) == len(names)


_FIELDS: Fields = {
    "version": lambda value: True,
    "stateId": matching(STATE_ID),
    "ref": is_text,
    "id": matching(ID),
    "login": matching(_LOGIN),
    "uid": is_number,
    "gid": is_number,
    "project": _name,
    "name": _name,
    "owner": _name,
    "sku": _name,
    "node": _name,
    "shape": lambda value: isinstance(value, str) and value in set(Shape),
    "slots": _slots,
    "commit": matching(_COMMIT),
    HMAC: is_text,
}
_OF_VERSION: Mapping[int, Fields] = {
    1: _FIELDS,
    2: {**_FIELDS, "expiresAt": lambda value: value == "" or _moment(value)},
}
"""Those of hosts that were last told by an earlier version are read as well."""
