"""Canonical JSON and digests: equal values have equal bytes, whatever the order they came in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def _plain(value: Any) -> dict[str, Any]:
    """Mappings of any make count as what they hold."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"not a JSON value: {value!r}")


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain
)


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spare space. Raises ValueError for NaN and infinities."""
    return _ENCODER.encode(value)


def text_digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(value: Any) -> str:
    """`sha256:<hex>` of the canonical JSON of `value`."""
    return text_digest(canonical(value))
