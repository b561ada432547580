"""Nodes proposed from facts: each one validates, and no card gets a slot on a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler import shipped
from reconciler.kinds.node.proposal import NodeAddress, Proposal, propose
from reconciler.kinds.registry import KINDS
from reconciler.model.host.cpus import parse_cpus
from reconciler.model.host.evidence import GpuFact, NodeFacts, ProbeProblem
from reconciler.model.host.topology import Card, Drive, Nic, NumaNode, Topology
from reconciler.model.ref import Ref
from reconciler.specs.read.validation import Validator
from tests.kinds.sample import Fleet

MODEL, MEMORY = "NVIDIA H100 80GB HBM3", 81559
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE2BYvDdDVXjgJeNpdLLCbyzQBmgdpdj6GLPWzNgNCNm"
OTHER_KEY = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGvKZXVmMLX0cOsJR3W3"
    "bfUf7MByzYk1xFLRN70C5rivCuoRORQiJ3/M6k0/oASyiOMBUxKCvSy+hp4eeE+SQD8="
)
WISH = NodeAddress(address="gpu09.example", host_keys=(KEY,))
CORES = 28


def address(at: int) -> str:
    return f"0000:{0x1A + 16 * at:02x}:00.0"


def gpu(at: int, **more: Any) -> GpuFact:
    told = {"memory_mib": MEMORY, "driver": "580.105.08", "numa": at // 2, **more}
    return GpuFact(uuid=f"GPU-{at:08d}-0000", pci_address=address(at), model=MODEL, **told)


def card(at: int, **more: Any) -> Card:
    told = {"numa": at // 2, "mig": "Disabled", "minor": 3 - at, **more}
    path = (f"0000:0{at}:01.0", f"0000:{0x10 + at}:00.0", address(at))
    return Card(pci_address=address(at), pci_path=path, uuid=f"GPU-{at:08d}-0000", **told)


def drive(at: int, **more: Any) -> Drive:
    path = (f"0000:0{at}:01.0", f"0000:{0x20 + at}:00.0")
    told = {"id": f"nvme-eui.000{at}", "numa": at // 2, **more}
    return Drive(size_gib=3576, pci_address=path[-1], pci_path=path, **told)


def nic(at: int, **more: Any) -> Nic:
    path = (f"0000:0{at}:01.0", f"0000:{0x10 + at}:00.0", f"0000:{0x30 + at}:00.0")
    told = {"name": f"mlx5_{at}", "rdma": True, "numa": at // 2, **more}
    return Nic(pci_address=path[-1], pci_path=path, **told)


def numa(number: int) -> NumaNode:
    first = number * CORES
    cores = tuple(f"{cpu},{cpu + 2 * CORES}" for cpu in range(first, first + CORES))
    return NumaNode(number=number, cores=cores, memory_mib=515 * 1024)


def four_cards(**more: Any) -> NodeFacts:
    """Two sockets with two cards each; beside each card, at another place, a drive and a NIC."""
    topology = Topology(
        serial="J1234",
        host_keys=(KEY, OTHER_KEY),
        numa_nodes=(numa(0), numa(1)),
        cards=tuple(card(at) for at in range(4)),
        drives=tuple(drive(at) for at in (1, 0, 2, 3)),
        nics=tuple(nic(at) for at in (3, 1, 2, 0)),
    )
    told: dict[str, Any] = {
        "source": "host",
        "machine_id": "b" * 32,
        "os": "debian-12",
        "memory_mib": 1030 * 1024,
        "gpus": tuple(gpu(at) for at in range(4)),
        "topology": topology,
        **more,
    }
    return NodeFacts(**told)


def with_topology(**more: Any) -> NodeFacts:
    facts = four_cards()
    assert facts.topology is not None
    return replace(facts, topology=replace(facts.topology, **more))


def proposed(facts: NodeFacts, wish: NodeAddress = WISH) -> Proposal:
    return propose(facts, wish, Fleet().desired())


def names(proposal: Proposal) -> list[str]:
    return [slot["name"] for slot in proposal.spec["slots"]]


def flaws(spec: Any) -> list[str]:
    """What the schema and the kind's own check say of a Node with this spec."""
    document = {"apiVersion": "gpuaas/v1", "kind": "Node", "metadata": {"name": "gpu09"}}
    found = Validator(shipped.schemas()["node"]).flaws({**document, "spec": spec})
    if found:
        return [str(flaw) for flaw in found]
    fleet = Fleet()
    fleet.documents[Ref("node", "", "gpu09")] = {**document, "spec": spec}
    return [problem.message for problem in fleet.problems("node/gpu09")]


def test_a_whole_host_becomes_a_node_that_stands_every_check() -> None:
    """INV-14: a proposed spec, whole, and nothing in it is approved."""
    proposal = proposed(four_cards())
    assert flaws(proposal.spec) == []
    assert proposal.notes == ()
    assert proposal.spec == {
        "address": "gpu09.example",
        "identity": {
            "machineId": "b" * 32,
            "hostKeys": sorted((KEY, OTHER_KEY)),
            "serial": "J1234",
        },
        "family": "h100-sxm",
        "isolation": "account",
        "reserve": {"cpus": "0-1,28-29,56-57,84-85", "memoryGiB": 52},
        "slots": proposal.spec["slots"],
    }
    assert names(proposal) == ["s0", "s1", "s2", "s3"]
    assert proposal.spec["slots"][1] == {
        "name": "s1",
        "gpu": {
            "uuid": "GPU-00000001-0000",
            "pciAddress": "0000:2a:00.0",
            "model": MODEL,
            "memoryMiB": MEMORY,
        },
        "numa": 0,
        "cpus": "15-27,71-83",
        "memoryGiB": 244,
        "nvme": {"id": "nvme-eui.0001", "sizeGiB": 3576},
        "nic": {"pciAddress": "0000:49:00.0", "name": "mlx5_1", "rdma": True},
    }


def test_what_is_proposed_is_never_approved() -> None:
    """INV-08: eight cards seen make no slot that is given out."""
    spec = KINDS["node"].parse(proposed(four_cards()).spec, "gpu09")
    assert spec.approvals == ()


def test_slots_and_reserve_share_the_machine_out() -> None:
    """INV-05: whole cores, no CPU twice, and no more memory than there is."""
    facts = four_cards()
    spec = proposed(facts).spec
    sets = [parse_cpus(slot["cpus"]) for slot in spec["slots"]]
    sets.append(parse_cpus(spec["reserve"]["cpus"]))
    assert sum(map(len, sets)) == len(frozenset().union(*sets)) == 4 * CORES
    assert all(set(one) == {(c + 56) % 112 for c in one} for one in sets)
    promised = sum(slot["memoryGiB"] for slot in spec["slots"]) + spec["reserve"]["memoryGiB"]
    assert promised * 1024 <= (facts.memory_mib or 0)


def lost(at: int) -> NodeFacts:
    """As nvidia-smi leaves out a card that does not answer; the bus still shows it."""
    facts = four_cards(
        gpus=tuple(gpu(n) for n in range(4) if n != at),
        problems=(ProbeProblem(probe="gpus", message="a card does not answer: GPU0000:2a:00.0"),),
    )
    assert facts.topology is not None and facts.topology.cards is not None
    cards = [replace(c, uuid="", mig=None) if c == card(at) else c for c in facts.topology.cards]
    return replace(facts, topology=replace(facts.topology, cards=tuple(cards)))


def changed(at: int, **more: Any) -> NodeFacts:
    return with_topology(cards=tuple(card(n, **(more if n == at else {})) for n in range(4)))


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (lost(1), "on the bus, but its driver does not answer for it"),
        (changed(1, mig="Enabled"), "MIG is enabled, switch it off"),
        (changed(1, mig=None), "MIG mode unknown"),
        (changed(1, numa=None), "its NUMA node is unknown"),
        (changed(1, numa=7), "its NUMA node is unknown"),
        (
            four_cards(gpus=tuple(gpu(n, memory_mib=None if n == 1 else MEMORY) for n in range(4))),
            "its memory is unknown",
        ),
        (
            four_cards(gpus=tuple(gpu(n, memory_mib=7 if n == 1 else MEMORY) for n in range(4))),
            f"{MODEL}, 7 MiB is not the card of the family",
        ),
    ],
)
def test_a_card_that_is_not_right_gets_no_slot_but_a_note(facts: NodeFacts, why: str) -> None:
    """INV-14, F-ANS-03: the others keep their names, and what is theirs."""
    proposal = proposed(facts)
    assert names(proposal) == ["s0", "s2", "s3"]
    assert f"s1, 0000:2a:00.0: {why}" in proposal.notes
    assert flaws(proposal.spec) == []
    whole = {slot["name"]: slot for slot in proposed(four_cards()).spec["slots"]}
    if "NUMA" not in why:
        assert [slot["cpus"] for slot in proposal.spec["slots"]] == [
            whole[name]["cpus"] for name in ("s0", "s2", "s3")
        ]


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        (lost(1), "gpus: a card does not answer: GPU0000:2a:00.0"),
        (four_cards(machine_id=""), "machineId: unknown, and nothing else tells"),
        (four_cards(os="debian-13"), "os: debian-13, family h100-sxm has debian-12, ubuntu-22.04"),
        (
            four_cards(gpus=tuple(gpu(n, driver="535.1") for n in range(4))),
            "driver: 535.1, family h100-sxm has 570, 580",
        ),
        (with_topology(cards=()), "cards: none on the bus"),
        (with_topology(cards=(card(0),)), "0000:2a:00.0: a card that is not on the bus"),
        (
            with_topology(drives=(drive(0), drive(2), drive(3))),
            "NUMA node 0: 2 cards, free drives: 1",
        ),
        (
            with_topology(nics=(nic(0), nic(2), nic(3))),
            "NUMA node 0: 2 cards, free RDMA adapters: 1",
        ),
    ],
)
def test_what_stands_against_a_host_is_told(facts: NodeFacts, note: str) -> None:
    """INV-17: a driver or system outside the family is named before anything is enrolled."""
    assert [one for one in proposed(facts).notes if one.startswith(note)]


@pytest.mark.parametrize("missing", ["cards", "numa_nodes"])
def test_what_could_not_be_read_makes_no_slot(missing: str) -> None:
    """F-ANS-03: unknown is not one of something."""
    assert names(proposed(with_topology(**{missing: None}))) == []


def test_a_host_that_told_nothing_makes_no_slot_and_says_why() -> None:
    """F-ANS-03: no driver, as nvidia-smi words it."""
    failed = "nvidia-smi ended with 9: NVIDIA-SMI has failed because it couldn't communicate"
    facts = NodeFacts(source="host", problems=(ProbeProblem(probe="gpus", message=failed),))
    proposal = proposed(facts)
    assert names(proposal) == []
    assert f"gpus: {failed}" in proposal.notes


@pytest.mark.parametrize(
    ("drives", "given"),
    [
        ([drive(0, holds="partitions"), drive(1)], 0),
        ([drive(0), drive(1, numa=None)], 0),
        ([drive(0), drive(1), drive(1, id="nvme-eui.9", holds="ext4")], 2),
    ],
)
def test_drives_are_given_out_free_and_fairly(drives: Sequence[Drive], given: int) -> None:
    """One to each card of a NUMA node, or to none; never one that holds something."""
    slots = proposed(with_topology(drives=tuple(drives))).spec["slots"]
    assert sum("nvme" in slot for slot in slots) == given
    assert not any(slot.get("nvme", {}).get("id") == "nvme-eui.9" for slot in slots)


def test_the_way_out_of_the_host_is_nobodys_adapter() -> None:
    nics = [nic(at) for at in range(4)] + [nic(0, holds="the host's way out", name="uplink")]
    slots = proposed(with_topology(nics=tuple(nics))).spec["slots"]
    assert [slot["nic"]["name"] for slot in slots] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]


def test_keys_of_a_host_that_shows_others_than_the_pinned_are_not_taken_over() -> None:
    """ACC-10: what a host says of its keys counts only where it fits what the operator knows."""
    facts = with_topology(host_keys=(OTHER_KEY,))
    assert proposed(facts).spec["identity"]["hostKeys"] == [KEY]


def test_a_family_is_taken_as_wished_or_found_by_its_card() -> None:
    """INV-13: of two that fit, nobody guesses."""
    assert proposed(four_cards(), replace(WISH, family="h200")).spec["family"] == "h200"
    fleet = Fleet()
    fleet.add("node_family/h100-too", "node_family/h100-sxm")
    proposal = propose(four_cards(), WISH, fleet.desired())
    assert "family" not in proposal.spec
    assert proposal.notes == (f"family: not one fits; the cards are {MODEL}, {MEMORY} MiB",)


def test_an_unusual_way_in_stands_in_the_spec() -> None:
    spec = proposed(four_cards(), replace(WISH, port=2222, user="root")).spec
    assert spec["ssh"] == {"port": 2222, "user": "root"}
    assert flaws(spec) == []


def test_a_small_machine_keeps_a_core_for_each_card() -> None:
    node = NumaNode(number=0, cores=("0", "1"), memory_mib=16 * 1024)
    facts = replace(
        with_topology(cards=(card(0),), numa_nodes=(node,)), memory_mib=16 * 1024, gpus=(gpu(0),)
    )
    (slot,) = proposed(facts).spec["slots"]
    assert (slot["cpus"], slot["memoryGiB"]) == ("1", 8)
    assert names(proposed(replace(facts, memory_mib=400 * 1024))) == [], "5 % is more than it has"
