"""Every rule of placement refuses what it should, by its name, and in the order of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.kinds.node.spec import AdminState
from reconciler.model.host.capacity import Need, SlotState, StorageNeed
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.ref import Ref
from reconciler.model.state.world import Suspension
from reconciler.planner.placement import filters
from reconciler.planner.placement.filters import hindrance, judge
from reconciler.planner.placement.inventory import Offer, in_force, read_held, read_offers
from tests.planner.fleet import (
    NOW,
    STATE_ID,
    base_fleet,
    claim,
    desired,
    need,
    node,
    observation,
    slot,
    world,
)

NVME = {"id": "nvme-1", "sizeGiB": 100}
NIC = {"pciAddress": "0000:0c:00.0", "rdma": False}
EARLIER = format_moment(NOW - timedelta(minutes=61))
GPU_LOST = {"gpus": ()}


def the_offer(spec: Mapping[str, Any], blocked: str = "", **changes: Any) -> Offer:
    """One node of the fleet as placement sees it; `facts` change what its host says."""
    facts = changes.pop("facts", {})
    seen = changes.pop("seen", ...)
    of = desired([*base_fleet(0), spec])
    resource = of.resources[Ref("node", "", "gpu01")]
    answer = observation(resource, **facts) if seen is ... else seen
    observations = {"gpu01": answer} if answer else {}
    state = world(of, observations=observations, **changes)
    return read_offers(of, state, NOW, {resource.ref: blocked} if blocked else {})[0]


def the_offer_beside(other: Mapping[str, Any], shown: int) -> Offer:
    """A node whose host shows its own card, beside one whose host shows `shown` of gpu02 and it."""
    of = desired([*base_fleet(0), node("gpu01", 1), other])
    one, two = (of.resources[Ref("node", "", name)] for name in ("gpu01", "gpu02"))
    own, others = (observation(each).facts.gpus for each in (one, two))
    seen = {
        "gpu01": observation(one, gpus=own + others[:shown]),
        "gpu02": observation(two, gpus=own + others),
    }
    return read_offers(of, world(of, observations=seen), NOW, {})[0]


def gpus(**changes: Any) -> Mapping[str, Any]:
    """The facts of a node whose every card differs from a sound one."""
    sound = observation(desired([node("gpu01", 2)]).resources[Ref("node", "", "gpu01")])
    cards = [
        type(card)(
            **{
                **{name: getattr(card, name) for name in card.__slots__},
                **changes,
            }
        )
        for card in sound.facts.gpus
    ]
    return {"gpus": tuple(cards)}


def suspended(scope: str, until: str = "") -> dict[str, Any]:
    one = Suspension(scope=scope, reason="smoke", actor="olga", since=EARLIER, until=until)
    return {"suspensions": (one,)}


def admin(state: AdminState) -> dict[str, Any]:
    return {"admin": {"state": state.value, "reason": "because", "attestedBy": "olga"}}


def storing(**changes: Any) -> Need:
    """A request that names one storage."""
    values = {"name": "data", "class_name": "local", "isolation": ("directory",), **changes}
    return need("a", storage=(StorageNeed(**values),))


def without_slots(offer: Offer) -> Offer:
    """As if specs had taken all of its slots out, and that were not applied."""
    return replace(offer, slots=tuple(replace(s, unnamed="no spec names it") for s in offer.slots))


ONE = need("a")
IDENTITY = {"machineId": "a" * 32, "hostKeys": ["ssh-ed25519 AAAA"]}
TWIN = {**slot("gpu01", 1), "gpu": slot("gpu01", 0)["gpu"]}
CASES: Mapping[str, tuple[Offer, Need]] = {
    "other_node": (the_offer(node("gpu01", 2)), need("a", pin="gpu02")),
    "family_mismatch": (the_offer(node("gpu01", 2)), need("a", families=("a100",))),
    "isolation_not_offered": (the_offer(node("gpu01", 2)), need("a", isolation=("account",))),
    "shape_not_offered": (the_offer(node("gpu01", 2, shapes=["gpu_slice"])), need("a", 0)),
    "project_suspended": (the_offer(node("gpu01", 2), **suspended("project/vision")), ONE),
    "class_not_available": (the_offer(node("gpu01", 2)), storing(nodes=("gpu02",))),
    "storage_backend_unfit": (the_offer(node("gpu01", 2)), storing(isolation=("account",))),
    "storage_on_other_node": (the_offer(node("gpu01", 2)), storing(node="gpu02")),
    "node_not_enrolled": (the_offer(node("gpu01", 2), "isolation vm"), ONE),
    "node_not_named": (replace(the_offer(node("gpu01", 2)), unnamed="no spec names it"), ONE),
    "not_approved": (the_offer(node("gpu01", 2, covers=["s0", "s1"])), ONE),
    "node_unavailable": (the_offer(node("gpu01", 2, **admin(AdminState.UNAVAILABLE))), ONE),
    "node_draining": (the_offer(node("gpu01", 2, **admin(AdminState.DRAINING))), ONE),
    "suspended": (the_offer(node("gpu01", 2), **suspended("node/gpu01")), ONE),
    "readiness_missing": (the_offer(node("gpu01", 2), seen=None), ONE),
    "node_unreachable": (
        the_offer(
            node("gpu01", 2), seen=Observation(node="gpu01", at=EARLIER, problem="host_timeout")
        ),
        ONE,
    ),
    "readiness_stale": (the_offer(node("gpu01", 2), facts={"at": NOW - timedelta(hours=2)}), ONE),
    "readiness_incomplete": (the_offer(node("gpu01", 2), facts={"descriptors": None}), ONE),
    "host_identity_changed": (
        the_offer(
            node(
                "gpu01",
                2,
                isolation="account",
                identity=IDENTITY,
            ),
            facts={"machine_id": "b" * 32},
        ),
        need("a", isolation=("account",)),
    ),
    "node_not_prepared": (
        the_offer(
            node("gpu01", 2, isolation="account", identity=IDENTITY),
            facts={"machine_id": "a" * 32},
        ),
        need("a", isolation=("account",)),
    ),
    "foreign_descriptors": (
        the_offer(node("gpu01", 2), facts={"descriptors": {"abc": "another state"}}),
        ONE,
    ),
    "unclaimed_descriptors": (
        the_offer(node("gpu01", 2), facts={"descriptors": {"abc": STATE_ID}}),
        ONE,
    ),
    "node_in_doubt": (replace(the_offer(node("gpu01", 2)), doubt="a process of uid 20001"), ONE),
    "fabric_faulty": (the_offer(node("gpu01", 2), facts={"fabric": ("manager failed",)}), ONE),
    "driver_outside_family": (the_offer(node("gpu01", 2), facts=gpus(driver="580.82")), ONE),
    "cards_of_others": (the_offer_beside(node("gpu02", 2), 1), ONE),
    "memory_exceeded": (the_offer(node("gpu01", 2), facts={"memory_mib": 16 * 1024}), ONE),
    "slot_not_named": (without_slots(the_offer(node("gpu01", 1))), ONE),
    "slot_disabled": (
        the_offer(node("gpu01", [slot("gpu01", 0, disabled={"reason": "Xid 79"})])),
        ONE,
    ),
    "slot_not_approved": (the_offer(node("gpu01", 2, covers=["host"])), ONE),
    "device_shared": (
        the_offer(
            node("gpu01", [slot("gpu01", n, nvme={**NVME, "id": f"nvme-{n}"}) for n in (0, 1)]),
            facts={
                "nvmes": ("nvme-0", "nvme-1"),
                "platform": dict.fromkeys(("device nvme-0", "device nvme-1"), "drive nvme0n1")
                | {"device *": "listed"},
            },
        ),
        ONE,
    ),
    "gpu_ambiguous": (the_offer(node("gpu01", [slot("gpu01", 0), TWIN])), need("a")),
    "gpu_faulty": (
        the_offer(node("gpu01", 1), facts={"card_errors": {"0000:10:00.0": ("xid 79",)}}),
        ONE,
    ),
    "gpu_changed": (the_offer(node("gpu01", 2), facts=gpus(pci_address="0000:99:00.0")), ONE),
    "gpu_missing": (the_offer(node("gpu01", 2), facts=GPU_LOST), ONE),
    "gpu_seen_twice": (the_offer_beside(node("gpu02", 2), 0), ONE),
    "gpu_busy": (the_offer(node("gpu01", 2), facts=gpus(processes=(4242,))), ONE),
    "numa_mismatch": (the_offer(node("gpu01", 2), facts=gpus(numa=7)), ONE),
    "nvme_missing": (
        the_offer(node("gpu01", [slot("gpu01", 0, nvme=NVME)]), facts={"nvmes": ()}),
        ONE,
    ),
    "nic_missing": (
        the_offer(node("gpu01", [slot("gpu01", 0, nic=NIC)]), facts={"nics": {}}),
        ONE,
    ),
    "min_cpus": (the_offer(node("gpu01", 2)), need("a", min_cpus_per_slot=9)),
    "min_memory": (the_offer(node("gpu01", 2)), need("a", min_memory_gib_per_slot=65)),
    "rdma_missing": (the_offer(node("gpu01", [slot("gpu01", 0, nic=NIC)])), need("a", rdma=True)),
    "node_too_small": (the_offer(node("gpu01", 2)), need("a", 4)),
}


@pytest.mark.parametrize("rule", CASES)
def test_rule_refuses_by_its_name(rule: str) -> None:
    """PLC-03 INV-10 INV-13 INV-16: one case for each rule about a node and its slots."""
    offer, request = CASES[rule]
    verdict = judge(offer, read_held([offer], ())["gpu01"], request)
    assert verdict.rule == rule
    assert verdict.detail


HELD_CASES: Mapping[str, tuple[dict[str, Any], Any, Need]] = {
    "host_shared_with_other_tenant": (
        {"sharing": "tenant"},
        claim("b", "gpu01", "s0", tenant="acme"),
        ONE,
    ),
    "host_shared_with_other_project": (
        {"sharing": "project"},
        claim("b", "gpu01", "s0", project="nlp"),
        ONE,
    ),
    "node_exclusive": ({}, claim("b", "gpu01", None), ONE),
    "node_has_slices": ({}, claim("b", "gpu01", "s1"), need("a", 0)),
    "too_few_free_slots": ({}, claim("b", "gpu01", "s1"), need("a", 2)),
}


@pytest.mark.parametrize("rule", HELD_CASES)
def test_who_is_there_already_refuses_by_name(rule: str) -> None:
    """PLC-03 PLC-07: one case for each rule about who holds what."""
    spec, held_by, request = HELD_CASES[rule]
    offer = the_offer(node("gpu01", 2, **spec))
    verdict = judge(offer, read_held([offer], [held_by])["gpu01"], request)
    assert verdict.rule == rule
    assert verdict.detail


def test_every_rule_has_a_case() -> None:
    """CRD-08: no rule comes in without a test that sees it refuse."""
    tables = (
        filters.REQUEST_RULES,
        filters.NODE_RULES,
        filters.HELD_RULES,
        filters.SLOT_RULES,
        filters.PROMISE_RULES,
    )
    rules = {rule for table in tables for rule in table}
    last = {filters.NODE_TOO_SMALL, filters.TOO_FEW_FREE_SLOTS}
    assert rules | last == CASES.keys() | HELD_CASES.keys()


def test_what_a_slot_is_called_is_by_a_rule_that_is_there() -> None:
    assert filters.SLOT_STATES.keys() <= filters.NODE_RULES.keys() | filters.SLOT_RULES.keys()
    assert SlotState.NOT_READY not in filters.SLOT_STATES.values()


def test_a_sound_node_is_refused_by_no_rule() -> None:
    """The cases above differ from this one by one thing each."""
    offer = the_offer(node("gpu01", 2))
    verdict = judge(offer, read_held([offer], ())["gpu01"], ONE)
    assert (verdict.rule, verdict.usable) == ("", 0b11)


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        ({"gpus": None}, "readiness_incomplete"),
        (gpus(driver=None), "driver_outside_family"),
        ({"memory_mib": None}, "memory_exceeded"),
        (gpus(numa=None), "numa_mismatch"),
        (gpus(processes=None), "gpu_busy"),
        ({"at": NOW + timedelta(hours=2)}, "readiness_stale"),
    ],
)
def test_what_is_unknown_refuses(facts: Mapping[str, Any], rule: str) -> None:
    """F-PLC-13: nothing is placed on a guess."""
    offer = the_offer(node("gpu01", 2), facts=facts)
    assert judge(offer, read_held([offer], ())["gpu01"], ONE).rule == rule


def test_unknown_disks_and_cards_refuse() -> None:
    """INV-02 INV-03: a listing that failed is no empty machine."""
    with_both = node("gpu01", [slot("gpu01", 0, nvme=NVME, nic=NIC)])
    disks = the_offer(with_both, facts={"nvmes": None})
    cards = the_offer(with_both, facts={"nics": None})
    nobody = read_held([disks], ())["gpu01"]
    assert judge(disks, nobody, ONE).detail == "s0: disks unknown"
    assert judge(cards, nobody, ONE).detail == "s0: network cards unknown"


def test_a_machine_without_numa_nodes_is_node_0() -> None:
    """INV-04: the kernel says -1 where there is only one."""
    offer = the_offer(node("gpu01", [slot("gpu01", 0)]), facts={})
    card = next(iter(offer.gpus.values()))
    alone = type(card)(**{**{n: getattr(card, n) for n in card.__slots__}, "numa": -1})
    offer = the_offer(node("gpu01", [slot("gpu01", 0)]), facts={"gpus": (alone,)})
    assert judge(offer, read_held([offer], ())["gpu01"], ONE).rule == ""


def test_slots_follow_the_uuid_not_the_order() -> None:
    """F-PLC-03: cards listed the other way round change nothing; a new card is a missing one."""
    spec = node("gpu01", 2)
    sound = the_offer(spec).observation.facts.gpus
    turned = the_offer(spec, facts={"gpus": tuple(reversed(sound))})
    nobody = read_held([turned], ())["gpu01"]
    assert judge(turned, nobody, ONE).usable == 0b11
    swapped = the_offer(spec, facts={"gpus": (sound[0],)})
    assert judge(swapped, nobody, ONE).usable == 0b01
    assert judge(swapped, nobody, need("a", 2)).detail == "s1: GPU-gpu01-1 not seen"


def test_one_bad_card_takes_one_slot() -> None:
    """F-PLC-08: one and seven fit, eight and the whole node do not, and the card is named."""
    slots = [slot("gpu01", n, n // 4) for n in range(8)]
    slots[3]["disabled"] = {"reason": "Xid 79", "ticket": "RMA-1"}
    offer = the_offer(node("gpu01", slots))
    nobody = read_held([offer], ())["gpu01"]
    assert judge(offer, nobody, need("a", 1)).rule == ""
    assert judge(offer, nobody, need("a", 7)).rule == ""
    for size in (8, 0):
        verdict = judge(offer, nobody, need("a", size))
        assert (verdict.rule, verdict.detail) == ("slot_disabled", "s3: Xid 79 (RMA-1)")


def test_suspensions_end_by_themselves() -> None:
    """What is over is over; an end that cannot be read is none."""
    over = Suspension(scope="all", reason="x", actor="o", since=EARLIER, until=EARLIER)
    garbled = Suspension(scope="all", reason="x", actor="o", since=EARLIER, until="soon")
    assert list(in_force([over, garbled], NOW)) == [garbled]


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ("not_approved", SlotState.NOT_APPROVED),
        ("node_unavailable", SlotState.UNAVAILABLE),
        ("node_draining", SlotState.DRAINING),
        ("readiness_missing", SlotState.UNKNOWN),
        ("readiness_stale", SlotState.UNKNOWN),
        ("gpu_missing", SlotState.NOT_READY),
        ("slot_disabled", SlotState.DISABLED),
        ("min_cpus", SlotState.FREE),
    ],
)
def test_state_of_a_free_slot_and_its_cause(rule: str, state: SlotState) -> None:
    """PLC-16: a slot that cannot be given out says by what; a request's own wish is no state."""
    offer, _ = CASES[rule]
    found, cause = hindrance(offer, offer.slots[0])
    assert (found, bool(cause)) == (state, state is not SlotState.FREE)


def test_a_claim_on_a_slot_that_is_gone_leaves_nothing_of_its_node() -> None:
    """F-PLC-02: what is held and can no longer be told blocks all."""
    offer = the_offer(node("gpu01", 2))
    held = read_held([offer], [claim("b", "gpu01", "s9")])["gpu01"]
    assert judge(offer, held, ONE).rule == "too_few_free_slots"
