"""Saved plans: good for one apply, of one state, and of the file that was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.operations.yard import Yard, copy_of
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk


def test_a_saved_plan_is_applied_as_it_is(applied: Yard) -> None:
    """CRD-03: the first plan of an empty state was applied, and nothing is left to do."""
    assert applied.claims == {
        "allocation/vision/train@gpu01/s0": "held",
        "allocation/vision/train@gpu01/s1": "held",
        "allocation/vision/solo@gpu02/s0": "held",
        "allocation/nlp/box@gpu03/*": "held",
    }
    assert applied.plan("--detailed-exitcode").code == 0


def test_a_plan_is_used_once_and_another_of_the_same_state_is_stale(yard: Yard) -> None:
    """F-PLN-05, CRD-03: refused with what changed; nothing is done, on host or in state."""
    hosts, serial = yard.hosts(), yard.world.serial
    again = yard.apply(str(yard.folder / "all.plan"))
    assert (again.code, again.problems) == (1, ["plan_used"])
    other = yard.apply(str(yard.folder / "some.plan"))
    assert (other.code, other.problems) == (1, ["plan_stale"])
    assert f"is now #{serial}" in other.messages
    assert (yard.hosts(), yard.world.serial) == (hosts, serial)
