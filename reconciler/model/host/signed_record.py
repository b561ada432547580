"""Signed records: files on a host that count only under the signature of the control machine.

A host is not believed: what is no record to the letter is none, and what one says counts only
once its signature was found right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Any

from reconciler.model.canonical import canonical
from reconciler.model.host.posix import LAST_UID
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref

HMAC = "hmac"
"""The field of the signature, which is over all others."""

ID = re.compile(r"[a-z2-7]{10}")
STATE_ID = re.compile(r"[a-z0-9-]{1,64}")

Sign = Callable[[str], str]
Fields = Mapping[str, Callable[[object], bool]]
"""The fields that a record has, and what fits each of them."""


class RecordError(ValueError):
    """Why a text is no such record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRecord:
    """What a host was told of one thing, and of which state. `hmac` signs the text `signed`."""

    state_id: str
    ref: Ref
    id: str
    signed: str
    hmac: str

    def is_signed_by(self, sign: Sign) -> bool:
        return compare_digest(sign(self.signed).encode(), self.hmac.encode())


def with_signature(values: Mapping[str, object], sign: Sign) -> Mapping[str, object]:
    """The values of a record as they are written to a host."""
    return {**values, HMAC: sign(canonical(values))}


def signed_text(told: Mapping[str, object]) -> str:
    """The text that the signature of a record is of."""
    return canonical({key: value for key, value in told.items() if key != HMAC})


def insist_on_fields(told: Mapping[str, object], fields: Fields, what: str) -> None:
    """Raises RecordError unless it has these fields, and in each what fits."""
    if told.keys() != fields.keys():
        raise RecordError(f"with other fields than a {what} has")
    for field, fits in fields.items():
        if not fits(told[field]):
            raise RecordError(f"{field} is not what it may be")


def mapping_of(text: str) -> dict[str, Any]:
    """An object in JSON with every key once, that can be signed and shown as it is.

    Raises RecordError for anything else.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_refuse
        )
        if isinstance(value, dict) and _is_plain(value):
            return value
    except (ValueError, RecursionError) as error:
        raise RecordError("unreadable") from error
    raise RecordError("unreadable")


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


def matching(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def is_number(value: object) -> bool:
    """A uid or gid that may be a tenant's, or 0 for none."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return value == 0 or 1000 <= value <= LAST_UID


def is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
