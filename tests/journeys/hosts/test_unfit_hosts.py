"""Hosts that cannot be made ready: refused by name, shown to people, and held against nobody."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.yard import Yard
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

NODE = "node/gpu09"


def unreachable() -> dict[str, Any]:
    """A host of accounts where nothing listens."""
    identity = {
        "machineId": "9" * 32,
        "hostKeys": [f"ssh-ed25519 {paper.public_key('gpu09').split()[1]}"],
    }
    spec = {"isolation": "account", "address": "127.0.0.1", "ssh": {"port": 1}}
    made = paper.node("gpu09", 2, root="/", identity=identity, **spec)
    del made["spec"]["root"]
    return made


def needs(yard: Yard) -> list[str]:
    return [one["text"] for one in yard.gpuaas("status").document["result"]["needsYou"]]


def test_a_host_that_was_never_reached_is_refused_and_shown_until_it_is_gone(yard: Yard) -> None:
    """INV-16, F-ANS-02: exit 3 and a line of its own; whoever takes its file out hears no more."""
    node = unreachable()
    yard.write(node)
    first = yard.apply()
    assert (first.code, first.blocked) == (3, {NODE: "host_unreachable"})
    assert first.change(NODE)["problem"]["hint"]
    assert yard.recorded(NODE) is None
    assert any(text.startswith(f"{NODE} host_unreachable") for text in needs(yard))
    looked_at = yard.world.observations["gpu09"].at
    again = yard.apply()
    assert again.code == 3
    assert yard.world.observations["gpu09"].at >= looked_at, "it may have been mended since"
    yard.remove(node)
    assert yard.apply().code == 0
    assert "gpu09" not in yard.world.observations
    assert not [text for text in needs(yard) if NODE in text]
