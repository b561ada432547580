"""Faults of cards: which errors take a slot out of use, which do not, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.model.codec import decode, encode
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.ref import Ref
from reconciler.planner.nodes.gpu_health import OF_PROGRAMS, fault, faults_of
from reconciler.planner.placement.filters import judge
from reconciler.planner.placement.inventory import Offer, read_held, read_offers
from reconciler.planner.placement.readiness import readiness
from tests.planner.fleet import NOW, base_fleet, claim, desired, need, node, observation, world

DESIRED = desired([*base_fleet(0), node("gpu01", 8)])
NODE = DESIRED.resources[Ref("node", "", "gpu01")]
BAD = "0000:13:00.0"


def offer_of(**facts: object) -> Offer:
    """As a program sees it that has just been started: all it knows is what was recorded."""
    seen = observation(NODE, **facts)
    kept = decode(NodeFacts, encode(seen.facts))
    again = type(seen)(node=seen.node, at=seen.at, facts=kept)
    return read_offers(DESIRED, world(DESIRED, observations={"gpu01": again}), NOW, {})[0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("xid 48", "Xid 48, uncorrectable memory error"),
        ("xid 64", "Xid 64, memory row not remapped"),
        ("xid 74", "Xid 74, NVLink error"),
        ("xid 79", "Xid 79, fell off the bus"),
        ("xid 94", "Xid 94, contained memory error"),
        ("xid 95", "Xid 95, uncontained memory error"),
        ("xid 119", "Xid 119, its processor does not answer"),
        ("xid 120", "Xid 120, its processor has failed"),
        ("xid 999", "Xid 999"),
        ("uncorrected 3", "3 uncorrectable memory errors"),
        ("uncorrected unknown", "uncorrectable memory errors: unknown"),
        ("pages pending", "memory pages to be retired at the next boot"),
        ("rows pending", "memory rows to be remapped at the next reset"),
        ("rows failed", "memory rows that could not be remapped"),
        ("rows failed unknown", "memory rows that could not be remapped: unknown"),
        ("a word of tomorrow", "a word of tomorrow"),
        ("says GPU requires reset", "its driver says: GPU requires reset"),
        ("lost GPU3: 0000:5F:00.0: Unknown Error", "lost: GPU3: 0000:5F:00.0: Unknown Error"),
        ("mig Enabled", "MIG is enabled, switch it off"),
        ("mig unknown", "MIG is unknown, switch it off"),
        ("fabric In Progress", "its fabric is not complete: In Progress"),
        ("fabric unhealthy", "its fabric is unhealthy"),
        ("recovery Node Reboot", "its driver asks for: Node Reboot"),
        ("fallen off the bus", "fell off the bus"),
        ("xid 149", "Xid 149"),
        ("xid 149 nonfatal", ""),
        ("xid 154 None", ""),
        ("xid 154 GPU Reset Required", "Xid 154, recovery: GPU Reset Required"),
        ("xid 154", "Xid 154, recovery:"),
        ("inforom corrupted", ""),
        *((f"xid {number}", "") for number in sorted(OF_PROGRAMS)),
    ],
)
def test_an_error_takes_a_card_out_of_use_or_ends_a_program(error: str, words: str) -> None:
    """F-PLC-08: what nobody knows counts as a fault."""
    assert fault(error) == words


@pytest.mark.parametrize(("size", "rule"), [(1, ""), (7, ""), (8, "gpu_faulty"), (0, "gpu_faulty")])
@pytest.mark.parametrize("gone", [False, True])
def test_a_bad_card_takes_its_slot_and_no_other(size: int, rule: str, gone: bool) -> None:
    """F-PLC-08: one and seven fit, eight and the whole node do not, and the card is named, also
    when the host shows it no more.
    """
    cards = tuple(c for c in observation(NODE).facts.gpus if not gone or c.pci_address != BAD)
    offer = offer_of(gpus=cards, card_errors={BAD: ("xid 79",)})
    verdict = judge(offer, read_held([offer], ())["gpu01"], need("a", size))
    assert verdict.rule == rule
    assert verdict.detail == ("s3: GPU-gpu01-3: Xid 79, fell off the bus" if rule else "")
    assert verdict.usable & 0b1000 == 0


def test_who_holds_other_slots_is_untouched() -> None:
    """F-PLC-08: only the free ones are asked for, and the one that is bad is not among them."""
    offer = offer_of(card_errors={BAD: ("uncorrected 1",)})
    held = read_held([offer], [claim("b", "gpu01", "s0")])["gpu01"]
    assert judge(offer, held, need("a", 6)).usable == 0b11110110


def test_a_fault_stays_until_a_look_shows_it_no_more() -> None:
    """F-PLC-09: it is read from what was recorded, whoever reads; the next sound look lifts it."""
    nobody = read_held([offer_of()], ())["gpu01"]
    rules = [
        judge(offer, nobody, need("a", 8)).rule
        for offer in (
            offer_of(card_errors={BAD: ("xid 79",)}),
            offer_of(card_errors={BAD: ("xid 79",)}),
            offer_of(card_errors=None),
            offer_of(boot_id="boot-2"),
        )
    ]
    assert rules == ["gpu_faulty", "gpu_faulty", "readiness_incomplete", ""]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (("sxid 20034 of 0000:c1:00.0",), "fatal error of a switch, SXid 20034 of 0000:c1:00.0"),
        (("manager failed",), "fabric manager failed"),
        (("a word of tomorrow",), "a word of tomorrow"),
    ],
)
def test_a_fabric_that_is_not_sound_takes_the_whole_host(told: tuple[str, ...], words: str) -> None:
    """F-REAL-05: no card of such a board computes, whatever each says."""
    offer = offer_of(fabric=told)
    verdict = judge(offer, read_held([offer], ())["gpu01"], need("a", 1))
    assert (verdict.rule, verdict.detail) == ("fabric_faulty", words)


def test_a_fabric_that_is_unknown_is_not_a_sound_one() -> None:
    """F-REAL-05: but evidence of older versions, which never asked, still counts."""
    for version, rule in ((2, ""), (3, "readiness_incomplete")):
        offer = offer_of(fabric=None, probe_version=version)
        assert judge(offer, read_held([offer], ())["gpu01"], need("a", 1)).rule == rule


@pytest.mark.parametrize(
    ("measured", "rule"),
    [(81920, ""), (81559, ""), (81251, ""), (76100, ""), (None, ""), (40960, "gpu_changed")],
)
def test_a_measured_number_is_no_identity(measured: int | None, rule: str) -> None:
    """F-REAL-07: equal cards differ, and so do drivers; another sort of card differs more."""
    cards = tuple(replace(card, memory_mib=measured) for card in observation(NODE).facts.gpus)
    offer = offer_of(gpus=cards)
    assert judge(offer, read_held([offer], ())["gpu01"], need("a", 1)).rule == rule


def test_a_marked_card_is_told_of_and_stays_in_use() -> None:
    """F-REAL-06: a damaged infoROM says nothing of how a card computes."""
    offer = offer_of(card_errors={BAD: ("inforom corrupted",)})
    assert judge(offer, read_held([offer], ())["gpu01"], need("a", 8)).rule == ""
    (check,) = (check for check in readiness(offer, None) if check.name == "card errors")
    assert (check.result, "infoROM corrupted" in check.value) == ("pass", True)


def test_readiness_says_what_to_do_about_a_fault() -> None:
    """INV-15: which slot, what is wrong, and how it is lifted."""
    offer = offer_of(card_errors={BAD: ("xid 79", "xid 31")})
    (check,) = (check for check in readiness(offer, None) if check.name == "card errors")
    assert (check.result, check.value.split(" (")[0]) == (
        "fail",
        "s3: GPU-gpu01-3: Xid 79, fell off the bus",
    )
    assert "gpuaas plan --refresh" in check.value
    (unknown,) = (c for c in readiness(offer_of(card_errors=None), None) if c.name == "card errors")
    assert (unknown.result, unknown.value) == ("unknown", "not told")
    assert faults_of(None, [BAD]) == ()
