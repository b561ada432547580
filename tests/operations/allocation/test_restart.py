"""A restart from the command that asks for it to what a host shows, and to what is told of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.operations.endpoints import endpoints
from tests.harness.crash import APPLY, end_of, kill
from tests.harness.yard import Yard

REF, FILE = "allocation/vision/train", "specs/allocation/vision/train.yaml"
WHY = "driver hang after NCCL test"

pytestmark = pytest.mark.walk


def mark(yard: Yard) -> Path:
    one = yard.recorded(REF)
    return yard.root(one.node) / f"etc/gpuaas/runtime/allocations/{one.id}.restart"


def test_a_restart_is_asked_for_applied_once_and_told_with_its_reason(yard: Yard) -> None:
    """RST-01, RST-02, RST-07, RST-08, ALC-06: killed in the middle it is still one restart."""
    before, neighbour = yard.recorded(REF), yard.recorded("allocation/vision/solo")
    home = yard.root(before.node) / "home" / before.login / "work"
    home.write_text("the work of ana")
    endpoint = endpoints(yard.fleet().settings, yard.world)

    asked = yard.gpuaas("restart", "vision/train", "--reason", WHY, "--commit")
    assert (asked.code, asked.document["result"]["generation"]) == (0, 1)
    assert asked.document["result"]["commit"]
    assert f"restart: {{generation: 1, reason: {WHY}}}" in (yard.folder / FILE).read_text()
    assert not mark(yard).exists(), "nothing has happened yet"
    twice = yard.gpuaas("restart", REF, "--reason", "again")
    assert twice.problems == ["restart_pending"]

    held = yard.apply("--auto-approve=safe")
    assert held.blocked == {REF: "held_for_approval"}
    assert not mark(yard).exists()

    end_of(kill(yard, APPLY, "finish_wave.before"), yard)
    first = mark(yard).read_text()
    assert json.loads(first)["generation"] == 1
    # It is under way by now, so the consent that was given counts on.
    done = yard.apply("--auto-approve=safe")
    assert done.code == 0, done.document["problems"]
    assert mark(yard).read_text() == first, "it was not restarted a second time"

    after = yard.recorded(REF)
    for name in ("id", "login", "node", "slots"):
        assert getattr(after, name) == getattr(before, name)
    # The descriptor is signed anew, with the commit that asked for it.
    assert after.facts.keys() == before.facts.keys()
    assert home.read_text() == "the work of ana"
    assert endpoints(yard.fleet().settings, yard.world) == endpoint
    assert yard.recorded("allocation/vision/solo") == neighbour
    assert yard.plan("--refresh").actions == {}
    told = yard.gpuaas("events", REF).document["result"]
    reasons = {one["reason"] for one in told if one["type"] == "restarting"}
    assert reasons == {WHY}


def test_a_restart_after_which_a_card_is_missing_is_not_through(yard: Yard) -> None:
    """F-PLC-10: it names the card, is in doubt and stays so; a card that is back ends that."""
    before = yard.recorded(REF)
    assert yard.gpuaas("restart", REF, "--reason", WHY, "--commit").code == 0
    table = yard.root(before.node) / "etc/gpuaas-standin/gpus.csv"
    cards = table.read_text()
    slots = yard.recorded(f"node/{before.node}").normal["spec"]["slots"]
    gone = next(one["gpu"]["uuid"] for one in slots if one["name"] == before.slots[1])
    table.write_text("".join(one for one in cards.splitlines(True) if gone not in one))

    done = yard.apply()
    assert (done.code, done.problems) == (1, ["evidence_mismatch"])
    assert f"gpu {gone} is absent, not present" in done.messages
    again = yard.plan("--refresh").change(REF)
    assert (again["action"], again["risk"]) == ("restart", "safe")
    assert again["facts"]["lacks"] == f"gpu {gone} (absent)"
    assert yard.world.claims and yard.recorded(REF).basis == ""
    first = mark(yard).read_text()

    table.write_text(cards)
    assert yard.apply("--auto-approve=safe").code == 0
    assert mark(yard).read_text() == first
    assert yard.plan("--refresh").actions == {}


def test_what_no_file_describes_cannot_be_restarted(applied: Yard) -> None:
    found = applied.gpuaas("restart", "vision/trai", "--reason", WHY)
    assert found.problems == ["not_found"]
    assert "allocation/vision/train" in found.messages
    assert applied.gpuaas("restart", "user/ana", "--reason", WHY).problems == ["not_found"]
    assert applied.gpuaas("restart", REF, "--reason", " ").code == 64
