"""Discovery on the tree of a server with eight cards, and on all that can be wrong with one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gpuaas import observe, observe_host, topology

from reconciler.hosts.evidence import Question, ask
from reconciler.kinds.node.proposal import NodeAddress, Proposal, propose
from reconciler.model.host.evidence import NodeFacts
from tests.harness.directory_host import host, options
from tests.kinds.sample import Fleet
from tests.lab import server

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE2BYvDdDVXjgJeNpdLLCbyzQBmgdpdj6GLPWzNgNCNm"
TREE = server.TREE
CARDS = "etc/gpuaas-standin/gpus.csv"
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens7f0np0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
ibs0\t0000640A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("image")
    own = {
        "etc/machine-id": "c" * 32 + "\n",
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "etc/ssh/ssh_host_ed25519_key.pub": f"{KEY} root@gpu09\n",
        "etc/ssh/ssh_host_ed25519_key": "a secret\n",
        "proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
        "proc/self/mounts": "/dev/nvme8n1p1 / ext4 rw 0 0\n/dev/nvme3n1 /data\\040x xfs rw 0 0\n",
        "proc/net/route": ROUTES,
    }
    files = {**server.every_host(), **server.one_host("lab1"), **own}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    links = {**server.links_of_every_host(), **server.links_of_one_host("lab1")}
    for path, target in links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root / path)
    (root / "usr/bin/nvidia-smi").chmod(0o755)
    return root


@pytest.fixture
def root(image: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(image, tmp_path / "root", symlinks=True))


def everything(root: Path) -> dict[str, Any]:
    request = {"root": str(root), "prove": [], "topology": True}
    facts: dict[str, Any] = observe.observe(request, observe_host.more)
    return facts


def discovered(root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    facts = everything(root)
    return facts["topology"], {p["probe"]: p["message"] for p in facts["problems"]}


def test_a_server_is_told_whole(image: Path) -> None:
    """INV-14: identity, whole cores, memory, cards, drives and adapters, from the real formats."""
    found, problems = discovered(image)
    assert problems == {}
    assert found["hostKeys"] == [KEY], "without its comment, and no private key"
    assert found["kernel"] == "6.1.0-28-amd64"
    assert [
        (node["number"], len(node["cores"]), node["cores"][0], node["memoryMiB"] // 1024)
        for node in found["numaNodes"]
    ] == [(0, 56, "0,112", 1007), (1, 56, "56,168", 1007)]
    assert found["cards"][1] == {
        "pciAddress": "0000:43:00.0",
        "pciPath": ["0000:3d:01.0", "0000:3e:00.0", "0000:3f:02.0", "0000:43:00.0"],
        "numa": 0,
        "uuid": server.gpu_uuid("lab1", 1),
        "mig": "Disabled",
        "minor": server.minor(1),
    }
    assert len(found["cards"]) == 8, "neither switches of the fabric nor the console's card"
    adapters = {nic["name"]: nic for nic in found["nics"]}
    assert adapters["mlx5_3"]["rdma"] and not adapters["mlx5_3"]["holds"]
    assert adapters["ens7f0np0"]["holds"] == "the host's way out"
    assert not adapters["ens7f1np1"]["rdma"]


def test_drives_are_told_with_who_uses_them(root: Path) -> None:
    block = root / TREE / "sys/block"
    (block / "nvme0n1/holders/dm-0").mkdir(parents=True)
    (block / "nvme1n1/dev").write_text("259:4\n")
    records = root / TREE / "run/udev/data/b259:4"
    records.parent.mkdir(parents=True)
    records.write_text("S:disk/by-id/x\nE:ID_FS_TYPE=xfs\n")
    found, problems = discovered(root)
    assert problems == {}
    assert [drive["holds"] for drive in found["drives"]] == [
        *("part of dm-0", "xfs", "", "mounted at /data\\\\040x", "", "", "", ""),
        *("partitions", "partitions"),
    ]
    assert {drive["id"][:8] for drive in found["drives"]} == {"nvme-eui"}
    assert found["drives"][2]["sizeGiB"] == 3576
    assert found["drives"][2]["numa"] == 0


def test_a_drive_behind_multipathing_is_found_by_its_controller(root: Path) -> None:
    """As kernels with native multipathing show a drive: below its subsystem, not on the bus."""
    sys = root / TREE / "sys"
    subsystem = sys / "devices/virtual/nvme-subsystem/nvme-subsys5"
    (subsystem / "nvme5n1").mkdir(parents=True)
    (subsystem / "nvme5n1/size").write_text("7501476528\n")
    (subsystem / "nvme5").symlink_to(os.path.realpath(sys / "class/nvme/nvme5"))
    (sys / "block/nvme5n1").unlink()
    (sys / "block/nvme5n1").symlink_to("../devices/virtual/nvme-subsystem/nvme-subsys5/nvme5n1")
    before, after = discovered(root)[0]["drives"][4:6]
    assert after["numa"] == before["numa"] == 1
    assert after["pciPath"][0] == "0000:bd:01.0"
    (subsystem / "nvme15").mkdir()
    assert "numa" not in discovered(root)[0]["drives"][5], "two ways to it are none"


def edited(root: Path, old: str, new: str) -> None:
    table = (root / CARDS).read_text()
    assert old in table
    (root / CARDS).write_text(table.replace(old, new))


def mig_on(root: Path) -> None:
    row = next(line for line in (root / CARDS).read_text().splitlines() if line.startswith("2, "))
    edited(root, row, row.replace("Disabled", "Enabled"))


def dead(root: Path) -> None:
    edited(root, server.gpu_uuid("lab1", 2), "ERROR")


def not_available(root: Path) -> None:
    row = next(line for line in (root / CARDS).read_text().splitlines() if line.startswith("2, "))
    edited(root, row, row.replace("81559 MiB", "[N/A]"))


def lost_from_the_bus_map(root: Path) -> None:
    (root / TREE / "sys/bus/pci/devices/0000:52:00.0/numa_node").write_text("-1\n")


def proposal_of(root: Path, tmp_path: Path) -> tuple[NodeFacts, Proposal]:
    """Through the call that carries the code, and the strict reading of its answer."""
    question = [(host(root), Question(topology=True))]
    (seen,) = ask(question, options(tmp_path), at=datetime(2026, 11, 28, tzinfo=UTC))
    assert seen.facts is not None, seen.message
    wish = NodeAddress(address="gpu09", host_keys=(KEY,))
    return seen.facts, propose(seen.facts, wish, Fleet().desired())


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (mig_on, "MIG is enabled, switch it off"),
        (dead, "on the bus, but its driver does not answer for it"),
        (not_available, "its memory is unknown"),
        (lost_from_the_bus_map, "its NUMA node is unknown"),
    ],
)
def test_one_card_in_trouble_costs_one_slot(
    root: Path, tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    """INV-14, F-ANS-03: MIG on, a dead card, `[N/A]`, no NUMA node: seven slots and a note."""
    spoil(root)
    facts, proposal = proposal_of(root, tmp_path)
    assert facts.source == "standin"
    assert [s["name"] for s in proposal.spec["slots"]] == ["s0", "s1", "s3", "s4", "s5", "s6", "s7"]
    assert f"s2, 0000:52:00.0: {why}" in proposal.notes


def test_slots_get_what_lies_beside_their_card(image: Path, tmp_path: Path) -> None:
    """INV-04: the same switch, where there is one."""
    _, proposal = proposal_of(image, tmp_path)
    nics = [slot["nic"]["name"] for slot in proposal.spec["slots"]]
    assert nics == [f"mlx5_{number}" for number in range(8)]
    assert not any("nvme" in slot for slot in proposal.spec["slots"][:4]), "one is mounted"
    assert all("nvme" in slot for slot in proposal.spec["slots"][4:])


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        (6, "No devices were found"),
        (0, "No devices were found"),
        (0, "garbage"),
    ],
)
def test_without_an_answer_of_the_driver_there_is_no_slot(
    root: Path, tmp_path: Path, status: int, text: str
) -> None:
    """F-ANS-03: cards on the bus alone are none to give out; the note has the tool's words."""
    (root / "etc/gpuaas-standin/failure.txt").write_text(f"{status}\n{text}\n")
    facts, proposal = proposal_of(root, tmp_path)
    assert proposal.spec["slots"] == []
    assert facts.topology is not None and len(facts.topology.cards or ()) == 8
    assert any(note.startswith("gpus: ") and text[:20] in note for note in proposal.notes)


XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>580.105.08</driver_version>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:1B:00.0">
		<mig_mode>
			<current_mig>N/A</current_mig>
			<pending_mig>N/A</pending_mig>
		</mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<serial>1654023000123</serial>
		<uuid>GPU-eb6c0716-025b-941f-3e3d-bab07b5a9539</uuid>
		<minor_number>3</minor_number>
	</gpu>
	<gpu id="00000000:43:00.0">
		<mig_mode>
			<current_mig>[Unknown Error]</current_mig>
		</mig_mode>
		<serial>[Unknown Error]</serial>
		<uuid>[Unknown Error]</uuid>
		<minor_number>[Unknown Error]</minor_number>
	</gpu>
</nvidia_smi_log>
"""
LOST = "Unable to determine the device handle for GPU0000:52:00.0: GPU is lost. Reboot the system."


def test_the_long_answer_of_nvidia_smi_in_its_own_words(root: Path) -> None:
    """F-ANS-03: what a card does not say is unknown, and a lost one does not spoil the others."""
    (root / "answer").write_text(XML)
    real, script = root / "usr/bin/nvidia-smi.real", root / "usr/bin/nvidia-smi"
    script.rename(real)
    script.write_text(
        f"""#!/bin/sh
case "$*" in
--query*) exec {real} "$@" ;;
'-q -x' | *52:00.0) echo '{LOST}'; exit 15 ;;
*) cat {root}/answer ;;
esac
"""
    )
    script.chmod(0o755)
    cards = {card["pciAddress"]: card for card in discovered(root)[0]["cards"]}
    first, second, third = (cards[f"0000:{bus}:00.0"] for bus in ("1b", "43", "52"))
    assert (first["serial"], first["mig"], first["minor"]) == ("1654023000123", "N/A", 3)
    for one in (second, third):
        assert not {"uuid", "serial", "mig", "minor"} & set(one)


def test_an_answer_cut_short_by_a_lost_card_is_asked_for_card_by_card(root: Path) -> None:
    """F-ANS-03: drivers differ in what they still say of the others; none of it is lost."""
    dead(root)
    real, script = root / "usr/bin/nvidia-smi.real", root / "usr/bin/nvidia-smi"
    script.rename(real)
    script.write_text(
        f"""#!/bin/sh
case "$*" in
*-i*) exec {real} "$@" ;;
*) {real} "$@" | sed '/^Unable/,$d'; echo '{LOST}'; exit 15 ;;
esac
"""
    )
    script.chmod(0o755)
    facts = everything(root)
    assert len(facts["gpus"]) == 7
    assert all(card["processes"] == [] for card in facts["gpus"])
    assert [card.get("mig") for card in facts["topology"]["cards"]].count("Disabled") == 7
    assert [p["message"] for p in facts["problems"] if p["probe"] == "gpus"] == [
        f"a card does not answer: {LOST}"
    ]


@pytest.mark.parametrize(
    ("text", "serial"),
    [
        ("J101HK3\n", "J101HK3"),
        ("To Be Filled By O.E.M.\n", None),
        ("Not Specified\n", None),
        ("None\n", None),
        ("System Serial Number\n", None),
        ("0000000000\n", None),
        ("\n", None),
    ],
)
def test_a_serial_number_is_one_or_none(root: Path, text: str, serial: str | None) -> None:
    place = root / TREE / "sys/class/dmi/id/product_serial"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    assert discovered(root)[0].get("serial") == serial


@pytest.mark.parametrize(
    ("gone", "fact", "probe"),
    [
        ("etc/ssh", "hostKeys", "hostKeys"),
        (f"{TREE}/sys/devices/system/cpu/cpu60/topology", "numaNodes", "numaNodes"),
        (f"{TREE}/sys/devices/system/node/node1/meminfo", "numaNodes", "numaNodes"),
        (f"{TREE}/dev/disk/by-id", "drives", "drives"),
        ("proc/net/route", "nics", "adapters"),
    ],
)
def test_each_part_fails_alone(root: Path, gone: str, fact: str, probe: str) -> None:
    """F-ANS-03: unknown, named by its probe; the rest is told."""
    place = root / gone
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    found, problems = discovered(root)
    assert fact not in found and probe in problems
    assert len(found["cards"]) == 8


def test_a_core_that_lies_in_two_numa_nodes_is_not_believed(root: Path) -> None:
    nodes = root / TREE / "sys/devices/system/node"
    (nodes / "node0/cpulist").write_text("0-55\n")
    found, problems = discovered(root)
    assert "numaNodes" not in found
    assert problems["numaNodes"] == "NUMA node 0 holds parts of cores"


def test_nobody_is_asked_for_a_topology_who_is_only_observed(image: Path) -> None:
    assert "topology" not in observe.observe({"root": str(image)})


def test_a_machine_without_numa_nodes_has_one(root: Path) -> None:
    """The kernel says -1 of each device there; that is its only node."""
    (root / TREE / "sys/bus/pci/devices/0000:52:00.0/numa_node").write_text("-1\n")
    shutil.rmtree(root / TREE / "sys/devices/system/node/node1")
    assert observe.observe({"root": str(root)})["gpus"][2]["numa"] == 0


def test_lists_of_cpus_are_read_as_linux_writes_them() -> None:
    assert topology.cpu_numbers("0-2,8,112-113\n") == [0, 1, 2, 8, 112, 113]
    assert topology.cpu_numbers("\n") == []


HEAD = ROUTES.splitlines()[0]


def route(port: str, network: str = "00000000", mask: str = "00000000") -> str:
    return f"{port}\t{network}\t0100000A\t0003\t0\t0\t0\t{mask}\t0\t0\t0"


def made_of(hardware: Path, port: str, **files: str) -> None:
    """An interface of the kernel's, with files of these names."""
    folder = hardware / "sys/class/net" / port
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def free_ports(root: Path) -> set[str]:
    """Network cards that may be proposed for a slot."""
    adapters = observe.Probes(str(root)).ask("adapters", topology.read_adapters)
    assert adapters is not None
    return {nic["name"] for nic in adapters if not nic["holds"]}


@pytest.mark.parametrize(
    ("port", "carried_by"),
    [
        ("ibs3.8001", {}),
        ("ens7f1np1.200", {}),
        ("vlan200", {"lower_ens7f1np1": ""}),
        ("bond0", {"bonding__slaves": "ens7f0np0 ens7f1np1\n"}),
        ("br0", {"brif__ens7f1np1": ""}),
        ("child", {"parent": "ens7f1np1\n"}),
        ("macvlan0", {"iflink": "7\n", "ifindex": "8\n"}),
    ],
)
def test_the_port_of_the_way_out_is_not_proposed_whatever_lies_between(
    root: Path, port: str, carried_by: dict[str, str]
) -> None:
    """F-REAL-08: a VLAN, a bond, a bridge or a child is not what leaves the host."""
    hardware = Path(observe.Probes(str(root)).hardware.root)
    (root / "proc/net/route").write_text(f"{HEAD}\n{route('lo', '0000640A')}\n")
    before = free_ports(root)
    made_of(hardware, "ens7f1np1", ifindex="7\n", iflink="7\n")
    made_of(hardware, port, **carried_by)
    (root / "proc/net/route").write_text(f"{HEAD}\n{route(port)}\n")
    gone = before - free_ports(root)
    under = {"ibs3.8001": "mlx5_3"}.get(port, "ens7f1np1")
    assert under in gone, (before, gone)


@pytest.mark.parametrize(
    "routes",
    [
        [route("ens7f0np0"), route("ens7f1np1")],
        [
            route("ens7f0np0"),
            route("ens7f1np1", mask="00000080"),
            route("ens7f1np1", "00000080", "00000080"),
        ],
    ],
)
def test_every_way_out_counts(root: Path, routes: list[str]) -> None:
    """F-REAL-08: one that stands by is the way of tomorrow."""
    (root / "proc/net/route").write_text("\n".join([HEAD, *routes, ""]))
    assert not free_ports(root) & {"ens7f0np0", "ens7f1np1"}


def test_a_way_out_of_ipv6_alone_is_one(root: Path) -> None:
    """F-REAL-08: hosts without a default route of IPv4 have one of IPv6."""
    (root / "proc/net/route").write_text(f"{HEAD}\n")
    before, none = free_ports(root), "0" * 32
    refusal = f"{none} 00 {none} 00 {none} ffffffff 00000001 00000000 00200200       lo\n"
    (root / "proc/net/ipv6_route").write_text(refusal)
    assert free_ports(root) == before
    row = f"{none} 00 {none} 00 fe80{'0' * 27}1 00000400 00000001 00000000 00000003 ens7f1np1\n"
    (root / "proc/net/ipv6_route").write_text(refusal + row)
    assert before - free_ports(root) == {"ens7f1np1"}
