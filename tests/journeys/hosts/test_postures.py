"""Every posture, come to for real on folders: what people are told, and what SQL says of it."""

from __future__ import annotations

import pytest

from reconciler.model.host.posture import Posture
from tests.harness.applied_fleet import TRAIN
from tests.harness.yard import Yard, card, node

pytestmark = pytest.mark.walk


def postures(yard: Yard) -> dict[str, tuple[str, ...]]:
    """Node → its posture and what else is said of it."""
    rows = yard.gpuaas("node", "list").document["result"]
    return {row["name"]: (row["posture"], *row["also"]) for row in rows}


def in_sql(yard: Yard) -> dict[str, str]:
    return dict(yard.rows("SELECT node, posture FROM projected_posture"))


def slots(yard: Yard, node: str) -> dict[str, str]:
    rows = yard.gpuaas("slot", "list").document["result"]
    return {row["slot"]: row["state"] for row in rows if row["node"] == node}


def told(yard: Yard, name: str) -> tuple[str, str, bool]:
    """(word, cause, whether since when is told) of the first slot of a node that nobody holds."""
    rows = yard.gpuaas("slot", "list").document["result"]
    row = next(row for row in rows if row["node"] == name and row["state"] != "held")
    return row["reuse"], row["cause"], bool(row["since"])


def test_every_posture_is_come_to(yard: Yard) -> None:
    """PLC-09 … PLC-16, PLC-14, MAT-07: by what is done to a fleet, never by a flag."""
    yard.write(node("gpu04", 2), node("gpu05", 2), node("gpu06", 1))
    yard.lay_nodes()
    assert yard.apply("--auto-approve").code == 0
    met = {posture for first, *_ in postures(yard).values() for posture in [first]}
    assert postures(yard) == {
        "gpu01": ("full",),
        "gpu02": ("partial",),
        "gpu03": ("exclusive",),
        "gpu04": ("available",),
        "gpu05": ("available",),
        "gpu06": ("available",),
    }
    assert slots(yard, "gpu03") == {"s0": "held", "s1": "held"}

    drained = yard.gpuaas("node", "drain", "gpu02", "--reason", "driver")
    assert drained.code == 0
    yard.write(node("gpu05", 2, admin={"state": "unavailable", "reason": "PSU"}))
    assert yard.apply("--auto-approve").code == 0
    with yard.away("gpu06"):
        yard.plan("--refresh")
        now = postures(yard)
        assert now["gpu02"] == ("draining", "partial")
        assert slots(yard, "gpu02") == {"s0": "held", "s1": "draining"}
        assert told(yard, "gpu02") == ("draining", "driver", True)
        assert told(yard, "gpu04") == ("reusable", "", False)
        assert told(yard, "gpu05") == ("blocked", "PSU", True)
        assert told(yard, "gpu06")[::2] == ("blocked", True), "since it is silent"
        assert now["gpu05"] == ("unavailable",) and slots(yard, "gpu05")["s0"] == "unavailable"
        assert now["gpu06"][0] == "unknown" and slots(yard, "gpu06") == {"s0": "unknown"}
        assert in_sql(yard)["gpu06"] == "unknown"
        met |= {first for first, *_ in now.values()}

    apps = yard.root("gpu01") / "etc/gpuaas-standin/apps.csv"
    quiet = apps.read_text()
    apps.write_text("".join(f"{card('gpu01', n)}, 471{n}, python train.py\n" for n in (0, 1)))
    yard.remove(TRAIN)
    assert yard.apply("--auto-approve=destroys").code == 1
    assert postures(yard)["gpu01"] == ("cleanup_blocked", "unavailable")
    assert slots(yard, "gpu01") == {"s0": "cleanup_blocked", "s1": "cleanup_blocked"}
    assert in_sql(yard)["gpu01"] == "cleanup_blocked"
    assert told(yard, "gpu01")[::2] == ("cleanup_blocked", True)
    met.add("cleanup_blocked")

    apps.write_text(quiet + f"{card('gpu01', 1)}, 4711, python train.py\n")
    assert yard.apply("--auto-approve=destroys").code == 1
    assert postures(yard)["gpu01"][0] == "partial", "one slot is proved, the other is not"
    apps.write_text(quiet)
    assert yard.apply("--auto-approve=destroys").code == 0
    assert postures(yard)["gpu01"] == ("available",)
    assert met == set(Posture)
    readable = {name: first for name, (first, *_) in postures(yard).items()}
    assert in_sql(yard) == readable
