"""A try that never came to its end is taken up only if it is just what is asked for now."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.model.host.capacity import ClaimState, Isolation, Need
from reconciler.planner.identity.claims import can_resume
from tests.planner.fleet import claim, need, node, resource

NODE = resource(node("gpu01"))
TWO = tuple(claim("train", "gpu01", slot) for slot in ("s0", "s1"))
WHOLE = (claim("train", "gpu01", None),)


@pytest.mark.parametrize(
    ("claims", "wanted", "answer"),
    [
        (TWO, need("train", 2), True),
        (TWO, need("train", 2, pin="gpu01"), True),
        (WHOLE, need("train", 0), True),
        (TWO, need("train", 1), False),
        (TWO, need("train", 0), False),
        (WHOLE, need("train", 1), False),
        (TWO, need("train", 2, pin="gpu02"), False),
        (TWO, need("train", 2, families=("b200",)), False),
        (TWO, need("train", 2, isolation=(Isolation.ACCOUNT,)), False),
        ((TWO[0], claim("train", "gpu01", "s1", state=ClaimState.RELEASING)), need("t", 2), False),
        ((claim("train", "gpu01", "s0", state=ClaimState.CLEANUP_BLOCKED),), need("t"), False),
    ],
)
def test_it_serves_still_or_it_does_not(claims: Any, wanted: Need, answer: bool) -> None:
    """PLC-06: the next run resumes the same claims; what was asked for may have changed by then."""
    assert can_resume(claims, wanted, NODE) is answer
