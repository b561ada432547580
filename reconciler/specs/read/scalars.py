"""Plain scalars: one closed rule, and a refusal of whatever YAML readers disagree on.

`true`, `false`, whole numbers of at most 15 digits and plain decimals are values, all else is
text – unless a YAML 1.1 reader would make a boolean, null, number, time or merge of it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite

from reconciler.model.problem import Problem

Scalar = str | int | float | bool

_WORDS = {"true": True, "false": False}
_BOOLEANS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false"})
_NULLS = frozenset({"", "~", "null"})
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
_TAKEN_FOR = {
    "a number": re.compile(
        r"[-+]?([0-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+"
        r"|([0-9][0-9_]*)?\.[0-9_]+([eE][-+][0-9]+)?|[0-9][0-9_]*\.([eE][-+][0-9]+)?"
        r"|\.(inf|Inf|INF))|\.(nan|NaN|NAN)"
    ),
    "a number to base 60": re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"),
    "a time": re.compile(
        r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
        r"(([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?"
        r"([ \t]*(Z|[-+][0-9]{1,2}(:?[0-9]{2})?))?)?"
    ),
    "an instruction": re.compile(r"=|<<"),
}
_RISKY = frozenset("0123456789+-.~=<yYnNtTfFoO")


@lru_cache(maxsize=1 << 15)
def plain(text: str) -> Scalar | Problem:
    """The value of an unquoted scalar, or the problem (without a place) that refuses it."""
    if text and text[0] not in _RISKY:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and isfinite(number := float(text)):
        return int(number) if number.is_integer() and abs(number) < 1e15 else number
    folded = text.lower()
    if folded in _NULLS:
        return Problem(
            code="yaml_null",
            message=f"`{text}` means no value" if text else "there is no value here",
            hint='leave the field out, or write text in quotes: "…"',
        )
    if folded in _BOOLEANS:
        return _ambiguous(text, "true or false")
    for what, pattern in _TAKEN_FOR.items():
        if pattern.fullmatch(text):
            return _ambiguous(text, what)
    return text


def _ambiguous(text: str, what: str) -> Problem:
    return Problem(
        code="yaml_ambiguous",
        message=f"some YAML readers take `{text}` for {what}, others for text",
        hint=f'quote it: "{text}"',
    )
