"""What the loop keeps small while it sleeps, and that nobody waits for it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reconciler.operations.open import open_fleet
from reconciler.operations.reconcile import loop
from reconciler.operations.reconcile.loop import LoopOptions
from reconciler.operations.reconcile.service.signals import LoopSignals
from reconciler.operations.reconcile.source import upkeep
from reconciler.operations.reconcile.source.source import follow
from reconciler.operations.reconcile.source.tree import mirror_of
from reconciler.operations.reconcile.source.upkeep import Upkeep
from reconciler.specs.git import maintenance
from tests.harness.yard import Yard


def packs(yard: Yard) -> set[Path]:
    return set(mirror_of(yard.fleet()).bare.glob("objects/pack/*.pack"))


@pytest.fixture
def full(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Yard:
    monkeypatch.setattr(maintenance, "MOST_LOOSE", 0)
    follow(yard.fleet())
    return yard


def test_it_is_done_once_in_a_while(full: Yard) -> None:
    seconds = random.uniform(1.0, 1000.0)
    ours = Upkeep(clock=lambda: seconds)
    ours.keep(full.fleet(), lambda: False)
    first = packs(full)
    assert (len(first), ours.degraded) == (1, "")
    follow(full.fleet())
    full.commit()
    follow(full.fleet())
    ours.keep(full.fleet(), lambda: False)
    assert packs(full) == first
    seconds += upkeep.SECONDS
    ours.keep(full.fleet(), lambda: False)
    assert packs(full) != first


def test_what_was_put_off_is_done_next_time(full: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Upkeep(clock=lambda: 1.0)
    monkeypatch.setattr("reconciler.specs.git.process.ASKED_SECONDS", 0.0)
    ours.keep(full.fleet(), lambda: True)
    assert (packs(full), ours.degraded) == (set(), "")
    ours.keep(full.fleet(), lambda: False)
    assert len(packs(full)) == 1


def test_a_copy_that_cannot_be_packed_is_told_until_it_can(full: Yard) -> None:
    ours = Upkeep(clock=lambda: ours.due)
    wanted = mirror_of(full.fleet()).bare / "refs/gpuaas/wanted"
    commit = wanted.read_text()
    wanted.write_text(f"{'1' * 40}\n")
    ours.keep(full.fleet(), lambda: False)
    assert "the copy of the source grows" in ours.degraded
    wanted.write_text(commit)
    ours.keep(full.fleet(), lambda: False)
    assert ours.degraded == ""


@pytest.mark.parametrize(
    ("woken", "asked", "slept", "over"),
    [
        (False, False, 0.5, False),
        (True, False, 0.5, False),
        (True, False, 1.5, True),
        (False, True, 0.1, True),
        (False, False, 60.5, True),
    ],
)
def test_a_round_that_is_due_ends_it(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, woken: bool, asked: bool, slept: float, over: bool
) -> None:
    signals = LoopSignals()
    options = LoopOptions(open=lambda: open_fleet(yard.folder))
    ours = loop._Loop(options=options, signals=signals, say=lambda news: None)
    signals._count = int(asked)
    if woken:
        signals.woken.set()
    monkeypatch.setattr(loop.time, "monotonic", lambda: 100.0 + slept)
    assert ours._is_over(100.0, 60.0) is over
