"""What counts of a host, or of an allocation on it, while somebody works there."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.plan.work import WaveIntent
from tests.harness.items import make_item
from tests.store.records import State, make_recorded, make_step, ref

NODE = ref("node/gpu01")
WALLS = {"sshd tenants": "x=1"}


def test_a_host_that_is_made_ready_is_not_ready_until_that_is_recorded(state: State) -> None:
    """F-ANS-05: killed before sshd has read its new file, it would look as if all were done."""
    node = replace(make_recorded("x"), ref=NODE, id="", login="", slots=(), shape=None, facts=WALLS)
    other = replace(node, ref=ref("node/gpu02"))
    run = state.run()
    state.journal.record(run, [node, other])
    item = make_item("node.prepare", login="gpuaas")
    prepare = replace(make_step("x"), verb="node.prepare", ref=NODE, item=item)
    state.journal.begin_wave(run, WaveIntent(steps=(prepare,)))
    recorded = state.journal.world().recorded
    assert dict(recorded[NODE].facts) == {}
    assert recorded[NODE].basis == node.basis, "it is not taken for one that nobody may touch"
    assert dict(recorded[other.ref].facts) == WALLS
    state.journal.record(run, [node])
    assert dict(state.journal.world().recorded[NODE].facts) == WALLS
