"""Descriptors as hosts would show them, signed by a key of our own."""

from __future__ import annotations

import hmac
import json
from typing import Any

from reconciler.model.canonical import canonical
from tests.planner.fleet import STATE_ID


def sign(text: str) -> str:
    return hmac.new(b"key", text.encode(), "sha256").hexdigest()


def told(letter: str, node: str = "gpu01", slot: str = "s0", **changes: Any) -> str:
    """Signed as it is, unless it says otherwise."""
    id = letter * 10
    values: dict[str, Any] = {
        "version": 1,
        "stateId": STATE_ID,
        "ref": f"allocation/vision/{letter}",
        "id": id,
        "login": f"{letter}-{id[:4]}",
        "uid": 0,
        "gid": 0,
        "project": "vision",
        "name": letter,
        "owner": "ana",
        "sku": "slice-1",
        "node": node,
        "shape": "gpu_slice",
        "slots": [{"name": slot, "uuid": "GPU-0", "pciAddress": "0000:10:00.0"}],
        "commit": "",
        **changes,
    }
    return json.dumps({"hmac": sign(canonical(values)), **values})
