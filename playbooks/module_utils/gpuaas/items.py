"""The form of work items: exactly these keys, each of its type, checked again on the host.

A form is a type, a function that raises Refusal, `[form]` for a list of such, a mapping of keys to
forms, or `Maybe(form)` where null may stand.
"""

from __future__ import annotations

import re
from typing import Any

from .paths import Refusal

MODE = re.compile(r"0[0-7]{3}")
MAX_CONTENT = 1024 * 1024


class Maybe:
    """Null, or of this form."""

    def __init__(self, form: Any) -> None:
        self.form = form


def check_form(value: Any, form: Any, what: str) -> None:
    """Raises Refusal, naming the place, where `value` is not of this form."""
    if isinstance(form, Maybe):
        if value is not None:
            check_form(value, form.form, what)
    elif isinstance(form, dict):
        check_keys(value, form, what)
    elif isinstance(form, list):
        check_form(value, list, what)
        for at, one in enumerate(value):
            check_form(one, form[0], f"{what}[{at}]")
    elif not isinstance(form, type):
        form(value, what)
    elif not isinstance(value, form) or (form is int and isinstance(value, bool)):
        raise Refusal("item_invalid", f"{what} is no {form.__name__}")


def check_keys(value: Any, keys: dict[str, Any], what: str) -> None:
    if not isinstance(value, dict):
        raise Refusal("item_invalid", f"{what}: no mapping")
    for key in sorted(set(value) ^ set(keys), key=str):
        raise Refusal(
            "item_invalid", f"{what}: {'unknown' if key in value else 'missing'} key {key!r}"
        )
    for key, form in keys.items():
        check_form(value[key], form, f"{what}: {key}")


def mode(value: Any, what: str) -> None:
    if not isinstance(value, str) or not MODE.fullmatch(value):
        raise Refusal("item_invalid", f"{what}: no mode: {value!r}")


def text(value: Any, what: str) -> None:
    """Of a file that fits in here and in any editor."""
    check_form(value, str, what)
    try:
        sound = len(value.encode("utf-8")) <= MAX_CONTENT and "\0" not in value
    except UnicodeEncodeError:
        sound = False
    if not sound:
        raise Refusal("item_invalid", f"{what} is too large, or no text")


FOLDER = {"path": str, "mode": mode}
FILE = {"path": str, "mode": mode, "content": text}
