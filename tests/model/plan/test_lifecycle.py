"""What an allocation may become, and the stages behind its phases."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from reconciler.model.plan.lifecycle import (
    EDGES,
    PHASE_OF,
    STAGES,
    Phase,
    Stage,
    StageFacts,
    may_become,
    stage_of,
)

LEGAL = {
    (Phase.PROVIDING, Phase.ACTIVE),
    (Phase.PROVIDING, Phase.FAILED),
    (Phase.PROVIDING, Phase.RELEASING),
    (Phase.FAILED, Phase.PROVIDING),
    (Phase.FAILED, Phase.ACTIVE),
    (Phase.FAILED, Phase.RELEASING),
    (Phase.ACTIVE, Phase.QUARANTINED),
    (Phase.ACTIVE, Phase.RELEASING),
    (Phase.QUARANTINED, Phase.ACTIVE),
    (Phase.QUARANTINED, Phase.RELEASING),
    (Phase.RELEASING, Phase.RELEASED),
}


def test_edges() -> None:
    """ALC-01: every edge that is not drawn is refused; a begun release is never taken back."""
    found = {
        (before, after)
        for before, after in itertools.product(Phase, Phase)
        if before is not after and may_become(before, after)
    }
    assert found == LEGAL
    assert all(may_become(phase, phase) for phase in Phase), "to stay is no edge"
    assert EDGES.keys() == set(Phase)


@pytest.mark.parametrize(
    ("facts", "stage"),
    [
        ({"phase": None}, Stage.CLAIMED),
        ({"phase": None, "asked": {"allocation.provide", "access.sync"}}, Stage.PROVIDING),
        ({"phase": None, "asked": {"access.sync"}}, Stage.ADMITTING),
        ({"phase": Phase.ACTIVE}, Stage.READY),
        ({"phase": Phase.ACTIVE, "settled": False}, Stage.IN_DOUBT),
        ({"phase": Phase.RELEASING, "access_pending": True}, Stage.REVOKING),
        ({"phase": Phase.QUARANTINED}, Stage.QUARANTINED),
        ({"phase": Phase.RELEASING}, Stage.WIPING),
        ({"phase": Phase.RELEASING, "blocked": True, "access_pending": True}, Stage.UNPROVED),
    ],
)
def test_stages(facts: dict[str, Any], stage: Stage) -> None:
    """ALC-01: fine stages behind coarse phases, the first row that holds."""
    asked = frozenset(facts.pop("asked", ()))
    found = stage_of(StageFacts(asked=asked, **facts))
    assert found is stage
    phase = facts["phase"] or Phase.PROVIDING
    assert PHASE_OF[found] is phase


def test_every_stage_has_a_row_and_a_phase() -> None:
    assert {stage for stage, _ in STAGES} == set(Stage) == PHASE_OF.keys()
