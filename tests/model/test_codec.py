"""What is encoded comes back as it was, whatever of it was not stated."""

from __future__ import annotations

import pytest

from reconciler.model.codec import decode, encode
from reconciler.model.host.capacity import Shape
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded


@pytest.mark.parametrize("slot", ["s0", None])
def test_a_value_that_may_be_none_comes_back_although_it_is_left_out(slot: str | None) -> None:
    claim = ClaimIntent(
        id="c",
        allocation_id="a",
        ref=Ref("allocation", "vision", "box"),
        node="gpu01",
        slot=slot,
        shape=Shape.GPU_SLICE if slot else Shape.BAREMETAL,
        tenant="corp",
        project="vision",
    )
    assert ("slot" in encode(claim)) is (slot is not None)
    assert decode(ClaimIntent, encode(claim)) == claim


def test_what_must_be_stated_is_missed() -> None:
    with pytest.raises(TypeError):
        decode(ClaimIntent, {"id": "c"})


def test_what_a_value_remembers_of_itself_is_not_told() -> None:
    """What is shown and published has the fields that were stated, as they are in the state."""
    ref = Ref("user", "", "ana")
    recorded = Recorded(ref=ref, normal={"spec": {}}, digest="d")
    recorded.take_spec(object())
    told = encode(recorded)
    assert told["problem"] == ""
    assert not {key for key in told if key.lower() == "spec"}
