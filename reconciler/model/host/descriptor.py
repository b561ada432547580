"""Descriptor: the signed file on a host that says what one allocation is, read strictly.

A host is not believed: what is no descriptor to the letter is none, and what it says counts only
once its signature was found right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from hmac import compare_digest
from typing import Any

from reconciler.model.canonical import canonical
from reconciler.model.host.capacity import Shape
from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref, is_name, parse_ref

DESCRIPTOR_VERSION = 2
LAST_UID = 59999
"""Of a tenant; numbers above belong to systemd and to subordinate ids."""

ID = re.compile(r"[a-z2-7]{10}")
_LOGIN = re.compile(r"[a-z][a-z0-9-]{0,26}-[a-z2-7]{4}")
_COMMIT = re.compile(r"[0-9a-f]{0,64}")
STATE_ID = re.compile(r"[a-z0-9-]{1,64}")
_SLOT_KEYS = frozenset({"name", "uuid", "pciAddress"})


class DescriptorError(ValueError):
    """Why a text is no descriptor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """What an allocation was when its host was last told. `signed` is the text that `hmac` signs.

    `uid` and `gid` are 0 without an account, `expires_at` is empty without an end.
    """

    state_id: str
    ref: Ref
    id: str
    login: str
    uid: int
    gid: int
    owner: str
    sku: str
    node: str
    shape: Shape
    slots: tuple[str, ...]
    commit: str
    signed: str
    hmac: str
    expires_at: str = ""

    def is_signed_by(self, sign: Callable[[str], str]) -> bool:
        return compare_digest(sign(self.signed).encode(), self.hmac.encode())


def read_descriptor(text: str) -> Descriptor:
    """Read a descriptor. Raises DescriptorError for anything else, or an unknown version."""
    told = mapping_of(text)
    version = told.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version not in _OF_VERSION:
        raise DescriptorError("of no version that is known")
    if told.keys() != _OF_VERSION[version].keys():
        raise DescriptorError("with other fields than a descriptor has")
    for field, fits in _OF_VERSION[version].items():
        if not fits(told[field]):
            raise DescriptorError(f"{field} is not what it may be")
    ref = parse_ref(told["ref"])
    if ref is None or ref != Ref("allocation", told["project"], told["name"]):
        raise DescriptorError("ref is not that of its project and name")
    return Descriptor(
        state_id=told["stateId"],
        ref=ref,
        id=told["id"],
        login=told["login"],
        uid=told["uid"],
        gid=told["gid"],
        owner=told["owner"],
        sku=told["sku"],
        node=told["node"],
        shape=Shape(told["shape"]),
        slots=tuple(slot["name"] for slot in told["slots"]),
        commit=told["commit"],
        signed=canonical({key: value for key, value in told.items() if key != "hmac"}),
        hmac=told["hmac"],
        expires_at=told.get("expiresAt", ""),
    )


def mapping_of(text: str) -> dict[str, Any]:
    """An object in JSON with every key once, that can be signed and shown as it is.

    Raises DescriptorError for anything else.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_refuse
        )
        if isinstance(value, dict) and _is_plain(value):
            return value
    except (ValueError, RecursionError) as error:
        raise DescriptorError("unreadable") from error
    raise DescriptorError("unreadable")


def _is_plain(value: Any) -> bool:
    """Whether texts have nothing that could steer a reader, or that cannot be written down."""
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return not isinstance(value, str) or value.isprintable()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def matching(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _name(value: object) -> bool:
    return isinstance(value, str) and is_name(value)


def is_number(value: Any) -> bool:
    """A uid or gid that may be a tenant's, or 0 for none."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    return plain and (value == 0 or 1000 <= value <= LAST_UID)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


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


_FIELDS: Mapping[str, Callable[[object], bool]] = {
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
    "hmac": is_text,
}
_OF_VERSION: Mapping[int, Mapping[str, Callable[[object], bool]]] = {
    1: _FIELDS,
    2: {**_FIELDS, "expiresAt": lambda value: value == "" or _moment(value)},
}
"""Those of hosts that were last told by an earlier version are read as well."""
