"""Postures: ordered tables, a case for each row of them and for each order of two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.model.host.capacity import SlotState
from reconciler.model.host.posture import (
    CONDITIONS,
    NODE_REUSE,
    OCCUPANCIES,
    SLOT_REUSE,
    NodeTally,
    Posture,
    Reuse,
    posture_of,
    postures_of,
)

FREE = NodeTally(
    usable=True, answered=True, draining=False, whole=False, slots=2, held=0, free=2, blocked=0
)
ALONE: dict[str, tuple[NodeTally, Posture]] = {
    "not usable": (replace(FREE, usable=False), Posture.UNAVAILABLE),
    "silent": (replace(FREE, answered=False), Posture.UNKNOWN),
    "none is clean": (replace(FREE, free=0, blocked=2), Posture.CLEANUP_BLOCKED),
    "takes nobody": (replace(FREE, draining=True), Posture.DRAINING),
    "one has it whole": (replace(FREE, whole=True, held=2, free=0), Posture.EXCLUSIVE),
    "every slot is held": (replace(FREE, held=2, free=0), Posture.FULL),
    "one held, one not clean": (replace(FREE, held=1, blocked=1, free=0), Posture.FULL),
    "one held, one not ready": (replace(FREE, held=1, free=0), Posture.FULL),
    "no slot can be given out": (replace(FREE, free=0), Posture.UNAVAILABLE),
    "one not clean, one not ready": (replace(FREE, free=0, blocked=1), Posture.UNAVAILABLE),
    "one held": (replace(FREE, held=1, free=1), Posture.PARTIAL),
    "one not clean": (replace(FREE, blocked=1, free=1), Posture.PARTIAL),
    "nobody is there": (FREE, Posture.AVAILABLE),
    "a node without slots": (replace(FREE, slots=0, free=0), Posture.UNAVAILABLE),
}


@pytest.mark.parametrize(("tally", "posture"), ALONE.values(), ids=ALONE.keys())
def test_each_posture(tally: NodeTally, posture: Posture) -> None:
    """PLC-09 … PLC-15."""
    assert posture_of(tally) is posture


def test_every_row_of_the_tables_is_come_to() -> None:
    assert {posture for _, posture in ALONE.values()} == set(Posture)
    for table in (CONDITIONS, OCCUPANCIES):
        first = [
            next((i for i, (_, h) in enumerate(table) if h(t)), None) for t, _ in ALONE.values()
        ]
        assert set(first) - {None} == set(range(len(table)))


def test_the_graver_comes_first_and_all_is_told() -> None:
    """PLC-16: a node may be drained, silent and full at once, and whoever looks is told so."""
    every = NodeTally(
        usable=False, answered=False, draining=True, whole=True, slots=2, held=0, free=0, blocked=2
    )
    assert postures_of(every) == (
        Posture.UNAVAILABLE,
        Posture.UNKNOWN,
        Posture.CLEANUP_BLOCKED,
        Posture.DRAINING,
        Posture.EXCLUSIVE,
    )
    full = replace(FREE, draining=True, held=2, free=0)
    assert postures_of(full) == (Posture.DRAINING, Posture.FULL)
    assert postures_of(replace(FREE, usable=False, free=0)) == (Posture.UNAVAILABLE,)


def test_every_posture_and_state_has_a_word_for_its_reuse() -> None:
    """MAT-07: blocked, draining, cleanup-blocked and reusable, of nodes and slots alike."""
    assert set(NODE_REUSE) == set(Posture) and set(SLOT_REUSE) == set(SlotState)
    for table in (NODE_REUSE, SLOT_REUSE):
        assert set(table.values()) == set(Reuse)
    given = {state for state, reuse in SLOT_REUSE.items() if reuse is Reuse.REUSABLE}
    assert given == {SlotState.FREE}, "what is held, or not known, is given to nobody"
