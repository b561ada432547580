"""Two hosts that show one card: nothing new on either, and nobody else is held up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.planner.nodes.duplicate_gpus import read_sightings
from reconciler.planner.placement.filters import judge
from reconciler.planner.placement.inventory import Offer, read_held, read_offers
from reconciler.planner.placement.readiness import contradictions, readiness
from tests.planner.fleet import NOW, base_fleet, desired, need, node, observation, world

LONG_AGO = format_moment(NOW - timedelta(hours=3))


def showing(of: Desired, name: str, *cards_of: str, **changes: Any) -> Observation:
    """What a host says that shows the cards of all these nodes."""
    nodes = [of.resources[Ref("node", "", one)] for one in cards_of]
    gpus = tuple(gpu for one in nodes for gpu in observation(one).facts.gpus)
    return replace(observation(of.resources[Ref("node", "", name)], gpus=gpus), **changes)


def offers(liar: dict[str, Any], **changes: Any) -> dict[str, Offer]:
    """Three nodes; the host of the second says that it has the cards of the first as well."""
    of = desired([*base_fleet(0), node("gpu01", 2), liar, node("gpu03", 2)])
    seen = {
        "gpu01": showing(of, "gpu01", "gpu01"),
        "gpu02": showing(of, "gpu02", "gpu02", "gpu01", **changes),
        "gpu03": showing(of, "gpu03", "gpu03"),
    }
    found = read_offers(of, world(of, observations=seen), NOW, {})
    return {offer.name: offer for offer in found}


def verdict(offer: Offer) -> tuple[str, str]:
    found = judge(offer, read_held([offer], ())[offer.name], need("a"))
    return found.rule, found.detail


def test_a_card_that_two_hosts_show_is_given_out_by_neither() -> None:
    """F-PLC-01: who is right nobody can say; both are named, and the third host serves."""
    found = offers(node("gpu02", 2))
    uuids = [slot.spec.gpu.uuid for slot in found["gpu01"].slots]
    rule, detail = verdict(found["gpu01"])
    assert rule == "gpu_seen_twice"
    assert detail == "; ".join(f"s{n}: {u} is shown by gpu02 as well" for n, u in enumerate(uuids))
    rule, detail = verdict(found["gpu02"])
    assert (rule, detail) == (
        "cards_of_others",
        f"shows {', '.join(f'{uuid} of gpu01' for uuid in sorted(uuids))}",
    )
    assert verdict(found["gpu03"]) == ("", "")


def test_people_see_it_on_both_nodes_and_before_they_approve() -> None:
    found = offers(node("gpu02", 2))
    for name, word in (("gpu01", "shown by gpu02"), ("gpu02", "of gpu01")):
        (cards,) = (check for check in readiness(found[name], None) if check.name == "cards")
        assert cards.result == "fail" and word in cards.value
    assert contradictions(found["gpu01"]).keys() == {"s0", "s1"}


@pytest.mark.parametrize(
    "liar",
    [
        node("gpu02", 2, covers=()),
        node("gpu02", 2, admin={"state": "unavailable", "reason": "it lies"}),
        node("gpu02", 2, admin={"state": "lost", "reason": "gone", "attestedBy": "olga"}),
    ],
    ids=["not approved", "out of use", "lost"],
)
def test_whose_word_does_not_count_holds_up_nobody(liar: dict[str, Any]) -> None:
    """A host of a stranger, and one that the operator has taken out, doubt no card of others."""
    assert verdict(offers(liar)["gpu01"]) == ("", "")


def test_an_old_word_doubts_nobody() -> None:
    """The card was moved since, and the host it was in has not been asked again."""
    assert verdict(offers(node("gpu02", 2), at=LONG_AGO)["gpu01"]) == ("", "")


def test_a_host_may_show_what_is_nobodys() -> None:
    found = read_sightings({"a": ["1", "2"], "b": ["3"], "c": []}, [("1", "a"), ("4", "b")])
    assert (found.twice, found.strange) == ({}, {})
    assert found.others("1", "a") == frozenset()
