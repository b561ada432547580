"""What an allocation has used and costs, and how busy its cards were; unknown where that is so."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from reconciler.operations.usage import Used, used
from tests.harness.yard import Yard

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
TRAIN = "allocation/vision/train"


def record(started: str, ended: str = "", gpus: int = 1, price: str = "2.00") -> dict[str, Any]:
    return {
        "started": f"2026-11-27T{started}:00Z",
        "ended": f"2026-11-27T{ended}:00Z" if ended else "",
        "gpus": gpus,
        "price_per_gpu_hour": price,
        "currency": "EUR" if price else "",
    }


@pytest.mark.parametrize(
    ("records", "hours", "cost", "unpriced", "running"),
    [
        ([record("10:30")], "1.50", {"EUR": "3.00"}, "", True),
        ([record("08:00", "09:00", gpus=8)], "8.00", {"EUR": "16.00"}, "", False),
        ([record("08:00", "09:00"), record("11:00", gpus=2)], "3.00", {"EUR": "6.00"}, "", True),
        ([record("11:00", price="")], "1.00", {}, "1.00", True),
        ([record("11:00", price="0.333333")], "1.00", {"EUR": "0.33"}, "", True),
        ([record("13:00")], "0.00", {"EUR": "0.00"}, "", True),
    ],
)
def test_use_is_summed_over_its_records(
    records: list[dict[str, Any]], hours: str, cost: dict[str, str], unpriced: str, running: bool
) -> None:
    """BIL-01 OBJ-02 F-REAL-23: to now where it goes on, and never below nothing."""
    since = min(one["started"] for one in records)
    assert used(records, NOW) == Used(
        since=since, gpu_hours=hours, cost=cost, unpriced_gpu_hours=unpriced, running=running
    )


def test_what_was_never_used_says_nothing() -> None:
    assert used([], NOW) is None


def test_show_tells_use_price_and_cards(yard: Yard) -> None:
    """OBJ-02 ALC-09 F-REAL-23: the billing record, and what its cards do with its age."""
    document = yard.gpuaas("show", TRAIN).document["result"]
    assert document["used"]["running"]
    assert 0 <= Decimal(document["used"]["gpuHours"]) < 1, "it began with this session of tests"
    cards = document["cards"]
    assert [card["slot"] for card in cards] == list(yard.recorded(TRAIN).slots)
    assert all(card["memoryMiB"] and card["at"] for card in cards), cards
    facts = document["facts"]
    assert facts["price"].endswith(" an hour")
    assert "GPU-hours since" in facts["used"]
    assert "MiB" in facts["cards"]
    assert facts["cards"].endswith(" ago)")


def test_status_of_cards_is_a_table(yard: Yard) -> None:
    """ALC-09 F-REAL-23"""
    rows = yard.gpuaas("status", "--gpu").document["result"]
    held = sum(len(claim) for claim in [yard.recorded(TRAIN).slots])
    assert len([row for row in rows if row["ref"] == TRAIN]) == held
    nlp = yard.gpuaas("status", "--gpu", "--project", "nlp").document["result"]
    assert {row["ref"] for row in nlp} == {"allocation/nlp/box"}
    assert yard.gpuaas("status", "--gpu", "--from", "x").code == 64
