"""Vouching: a place that was freed by somebody's word stays marked by it."""

from __future__ import annotations

import pytest

from reconciler.model.state.world import Override
from reconciler.planner.proof.overrides import vouched_for


def word(slot: str | None, reason: str, node: str = "gpu01") -> Override:
    return Override(
        claim="c", ref="allocation/vision/a", node=node, slot=slot, actor="olga", reason=reason,
        at="2026-12-01T12:00:00Z",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), ""),
        ((word("s1", "x"),), ""),
        ((word("s0", "x", "gpu02"),), ""),
        ((word("s0", "wiped"),), "s0 by olga on 2026-12-01: wiped"),
        ((word("s0", "wiped"), word("s0", "again")), "s0 by olga on 2026-12-01: again"),
        ((word(None, "new disks"),), "the whole node by olga on 2026-12-01: new disks"),
    ],
)
def test_the_last_word_over_a_place_counts(words: tuple[Override, ...], told: str) -> None:
    """REL-04: of this slot or of all of its node, and of no neighbour."""
    assert vouched_for(words, "gpu01", ("s0", "s2")) == told
