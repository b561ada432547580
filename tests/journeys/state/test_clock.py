"""A clock that jumps between two applies, forwards and back: what was true stays true."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from reconciler.model.plan.plan import Risk
from reconciler.operations.fleet import utc_now
from tests.harness.applied_fleet import TRAIN
from tests.harness.yard import Yard
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

TRAIN_REF, SOLO_REF = "allocation/vision/train", "allocation/vision/solo"
FAR = timedelta(days=400)


def codes(yard: Yard, at: datetime) -> list[str]:
    """What goes wrong with an apply at that moment."""
    done = yard.approved_at(at, Risk.DESTROYS)
    return [problem.code for problem in (*done.plan.problems, *done.problems)]


def is_sound(yard: Yard) -> None:
    """Numbers in the order in which things happened, whatever the time was said to be."""
    assert yard.gpuaas("state", "check").code == 0
    for table, number in (("event", "sequence"), ("run", "number")):
        found = [row[0] for row in yard.rows(f"SELECT {number} FROM {table} ORDER BY rowid")]
        assert found == sorted(set(found)), table
    ids = [row[0] for row in yard.rows("SELECT id FROM claim")]
    assert len(ids) == len(set(ids))


def test_a_clock_that_was_set_back_ends_and_frees_nothing(yard: Yard) -> None:
    """F-REC-03: a year ago nobody had less, and nobody is given less or more."""
    keys, claims = yard.keys(SOLO_REF), yard.claims
    before = utc_now() - FAR
    assert codes(yard, before) == []
    assert (yard.keys(SOLO_REF), yard.claims) == (keys, claims)
    yard.write(paper.allocation("new"))
    yard.remove(TRAIN)
    yard.commit()
    assert codes(yard, before + timedelta(minutes=1)) == []
    assert yard.recorded(TRAIN_REF) is None
    assert yard.keys(SOLO_REF) == keys
    assert codes(yard, utc_now()) == []
    is_sound(yard)


def test_a_clock_that_ran_ahead_takes_no_more_than_it_says_and_gives_it_back(yard: Yard) -> None:
    """What has an end is over then, and is not when the clock is right again; nothing else is."""
    keys, claims = yard.keys(SOLO_REF), yard.claims
    assert codes(yard, utc_now() + FAR) == []
    assert yard.keys(SOLO_REF) == [key for key in keys if not key.startswith(("bo/desk", "dana/"))]
    assert yard.claims == claims
    (yard.root("gpu02") / "etc/gpuaas-standin/gpus.csv").write_text("")
    yard.write(paper.allocation("new", node="gpu02"))
    yard.commit()
    done = yard.approved_at(utc_now())
    blocked = {
        str(change.ref): change.problem.code for change in done.plan.changes if change.problem
    }
    assert blocked == {"allocation/vision/new": "sku_unavailable"}, "evidence of a time to come"
    assert yard.keys(SOLO_REF) == keys
    assert yard.claims == claims
    is_sound(yard)


def test_a_clock_that_stands_still_proves_nothing_twice(yard: Yard) -> None:
    """F-PLC-04: the same moment, the same failure, and then the proof: each of them is kept."""
    at = utc_now()
    home = yard.root("gpu01") / "home" / yard.recorded(TRAIN_REF).login
    yard.remove(TRAIN)
    yard.commit()
    home.rename(home.with_suffix(".aside"))
    home.symlink_to("/nowhere")
    for _ in range(2):
        assert "cleanup_blocked" in codes(yard, at)
    home.unlink()
    home.with_suffix(".aside").rename(home)
    assert codes(yard, at) == []
    assert not [ref for ref in yard.claims if ref.startswith(TRAIN_REF)]
    is_sound(yard)
