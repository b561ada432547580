"""Identity: ids and logins follow from names, so that equal plans give equal ids."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterator

from reconciler.model.problem import refuse
from reconciler.model.ref import Ref

ID_LENGTH = 10
LOGIN_NAME_LENGTH = 24


def allocation_id(state_id: str, ref: Ref, incarnation: int) -> str:
    """Ten letters that identify one incarnation of a ref."""
    text = f"{state_id}\n{ref}\n{incarnation}".encode()
    return base64.b32encode(hashlib.sha256(text).digest()).decode().lower()[:ID_LENGTH]


def login_for(name: str, id: str, taken: Collection[str]) -> str:
    """The account's name, never one that somebody has or had."""
    for login in _logins(name, id):
        if login not in taken:
            return login
    raise refuse(
        "uids_exhausted", f"every login of {name} was used before", "give the allocation a new name"
    )


def former_login(name: str, id: str, had: Collection[str], living: Collection[str]) -> str:
    """The account's name of an allocation that is no longer recorded, or never was.

    Never one of the `living`: what is looked up here is going to be removed.
    """
    free = [login for login in _logins(name, id) if login not in living]
    return next((login for login in free if login in had), free[0] if free else "")


def _logins(name: str, id: str) -> Iterator[str]:
    """The name's first 24 letters and four letters of the id; if taken, its next four."""
    stem = name[:LOGIN_NAME_LENGTH].rstrip("-")
    for start in range(ID_LENGTH - 3):
        yield f"{stem}-{id[start : start + 4]}"
