"""Nodes counted at once are counted as if each had been asked by itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.host.capacity import Isolation, Need, StorageNeed
from reconciler.planner.placement.filters import TOO_FEW_FREE_SLOTS
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.scheduler import Placer
from tests.planner import fleet

NAMES = [f"gpu{number:02}" for number in range(6)]
PROJECTS = (("corp", "vision"), ("corp", "video"), ("acme", "nlp"))

nodes = st.fixed_dictionaries(
    {
        "family": st.sampled_from(["h100", "a100"]),
        "sharing": st.sampled_from(["any", "tenant", "project"]),
        "shapes": st.sampled_from([["baremetal", "gpu_slice"], ["gpu_slice"], ["baremetal"]]),
        "slots": st.integers(1, 4),
        "approved": st.booleans(),
    }
)
storages = st.builds(
    StorageNeed,
    name=st.sampled_from(["data", "other"]),
    class_name=st.sampled_from(["local", "far"]),
    nodes=st.sampled_from([(), ("gpu01",), ("gpu00", "gpu02")]),
    families=st.sampled_from([(), ("h100",)]),
    isolation=st.sampled_from([(Isolation.DIRECTORY,), (Isolation.ACCOUNT,)]),
    node=st.sampled_from(["", "gpu01", "gpu03", "gone"]),
)
requests = st.tuples(
    st.integers(0, 4),
    st.sampled_from([("h100",), ("a100",), ("h100", "a100"), ("none",)]),
    st.sampled_from(["", "", "", "gpu02", "gone"]),
    st.lists(storages, max_size=2),
    st.sampled_from(PROJECTS),
)


def need_of(number: int, request: tuple) -> Need:  # type: ignore[type-arg]
    slots, families, pin, storage, (tenant, project) = request
    made = fleet.need(f"run-{number}", slots, families=families, tenant=tenant, project=project)
    return replace(made, pin=pin, storage=tuple(storage))


@settings(deadline=None, max_examples=150)
@given(st.lists(nodes, min_size=1, max_size=6), st.lists(requests, min_size=1, max_size=12))
def test_counts_are_those_of_every_node_by_itself(listed: list, asked: list) -> None:  # type: ignore[type-arg]
    """F-REAL-27: a tally for all who ask the same, whoever holds what."""
    documents = [
        fleet.node(
            name,
            one["slots"],
            covers=None if one["approved"] else ["host"],
            family=one["family"],
            sharing=one["sharing"],
            shapes=one["shapes"],
        )
        for name, one in zip(NAMES, listed, strict=False)
    ]
    desired = fleet.desired(documents)
    placer = Placer(read_offers(desired, fleet.world(desired), fleet.NOW, {}), ())
    for number, request in enumerate(asked):
        need = need_of(number, request)
        if placer.place(need) is not None:
            continue
        seen = placer.explain(need)
        told = placer.refusals(need)
        assert told.refusals == Counter(one.rule for one in seen if one.rule)
        near = [one for one in seen if one.rule == TOO_FEW_FREE_SLOTS and one.slots]
        best = min(near, key=lambda one: (-len(one.slots), one.node), default=None)
        assert told.nearest == (f"{best.node} has {best.detail}" if best else "")
