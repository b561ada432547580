"""Every driver in its own form: the stand-in speaks like each of them, and all of it is understood.

Fields, deprecations, wordings, streams and exit codes are those of public captures.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from gpuaas import observe, observe_host

from reconciler import shipped
from reconciler.hosts.answers import read_answer
from reconciler.kinds.node.proposal import NodeAddress, Proposal, propose
from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import CheckResult, NodeFacts, Observation, Proof
from reconciler.model.plan.plan import Order, Step
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.operations.node.directory_host import lay
from reconciler.planner.placement.filters import NodeVerdict, judge
from reconciler.planner.placement.inventory import read_held, read_offers
from reconciler.planner.proof.rules import inventory_of, prove
from tests.harness.items import make_item
from tests.planner import fleet as paper

DRIVERS = (
    "470.256.02-standin",
    "550.163.01-standin",
    "580.105.08-standin",
    "595.58.03-standin",
    "610.43.02-standin",
)
TELLING = [driver for driver in DRIVERS if int(driver.split(".")[0]) >= 535]
"""Those that say whether a card wants a reset, and of its part in the fabric."""
BRANCHES = [driver.split(".")[0] for driver in DRIVERS]
UUIDS = tuple(f"GPU-00000000-dead-beef-0000-00000000000{number}" for number in range(3))
BUS = ("0000:10:00.0", "0000:11:00.0", "0000:12:00.0")
MARK = "etc/gpuaas-standin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A folder that answers like a host with three cards, of which the second can be spoilt."""

    root: Path
    driver: str

    @property
    def branch(self) -> int:
        return int(self.driver.split(".")[0])

    def table(self, header: str, *values: str) -> None:
        """One more column."""
        path = self.root / MARK / "gpus.csv"
        label, first, *rows = path.read_text().splitlines()
        more = [f"{row}, {value}" for row, value in zip(rows, values, strict=True)]
        path.write_text("\n".join((label, f"{first}, {header}", *more)) + "\n")

    def change(self, old: str, new: str) -> None:
        path = self.root / MARK / "gpus.csv"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def write(self, name: str, text: str) -> None:
        (self.root / MARK / name).write_text(text)

    def wrap(self, script: str) -> None:
        """A program before the stand-in, which is `$real`."""
        program = self.root / "usr/bin/nvidia-smi"
        program.rename(program.with_name(".real"))
        program.write_text(f'#!/bin/sh\n# TEST STAND-IN\nreal=$(dirname "$0")/.real\n{script}')
        program.chmod(0o755)

    def smi(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = self.root / "usr/bin/nvidia-smi"
        return subprocess.run([program, *words], check=False, capture_output=True, text=True)

    def facts(self, topology: bool = False) -> NodeFacts:
        request = {"root": str(self.root), "prove": [], "topology": topology}
        answer = observe.observe(request, observe_host.more if topology else observe.nothing)
        return read_answer(json.dumps(answer).encode())


@pytest.fixture(params=DRIVERS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    driver = str(request.param)
    lay(tmp_path, the_node(), shipped.templates())
    made = Host(root=tmp_path, driver=driver)
    made.change("580.105.08-standin", driver)
    (tmp_path / "sys/module/nvidia/version").write_text(f"{driver}\n")
    return made


def slots() -> list[dict[str, Any]]:
    made = [paper.slot("gpu01", number) for number in range(3)]
    for slot, uuid in zip(made, UUIDS, strict=True):
        slot["gpu"]["uuid"] = uuid
    return made


def fleet() -> Desired:
    base = {"os": ["debian-12"], "driverBranches": BRANCHES}
    return paper.desired([paper.family(base=base), paper.node("gpu01", slots())])


def the_node() -> Resource:
    return fleet().resources[Ref("node", "", "gpu01")]


def verdict(facts: NodeFacts, size: int = 1) -> NodeVerdict:
    """Of a request of this many slots, as placement judges it by this evidence."""
    desired = fleet()
    seen = Observation(node="gpu01", at="2026-12-01T12:00:00Z", facts=facts)
    world = paper.world(desired, observations={"gpu01": seen})
    (offer,) = read_offers(desired, world, paper.NOW, {})
    return judge(offer, read_held([offer], ())["gpu01"], paper.need("a", size))


def said(facts: NodeFacts) -> str:
    return "; ".join(problem.message for problem in facts.problems)


def test_a_sound_host_is_known_whole(host: Host) -> None:
    """F-REAL-06: the version is the module's, whatever the driver calls it."""
    facts = host.facts()
    assert [problem for problem in facts.problems if problem.probe != "nvmes"] == []
    assert facts.card_errors == {}
    assert facts.fabric == ()
    for at, gpu in enumerate(facts.gpus or ()):
        assert (gpu.uuid, gpu.pci_address, gpu.minor) == (UUIDS[at], BUS[at], at)
        assert (gpu.driver, gpu.model, gpu.memory_mib) == (host.driver, paper.MODEL, 81559)
        assert (gpu.processes, gpu.memory_used_mib) == ((), 9)
    assert verdict(facts, 3).usable == 0b111


def test_it_is_discovered(host: Host) -> None:
    """F-REAL-06: what slots are proposed of is told in every form."""
    (host.root / "etc/ssh").mkdir()
    for cpu in range(24):
        topology = host.root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu}\n")
    facts = host.facts(topology=True)
    proposal: Proposal = propose(facts, NodeAddress(address="a.example", host_keys=()), fleet())
    made = proposal.spec["slots"]
    assert [slot["gpu"]["uuid"] for slot in made] == list(UUIDS), proposal.notes
    assert facts.topology is not None
    assert [card.mig for card in facts.topology.cards or ()] == ["Disabled"] * 3


def test_forms_differ_as_their_drivers_do(host: Host) -> None:
    """F-REAL-06: which fields there are, and what the versions are called."""
    long = host.smi("-q", "-x").stdout
    old = host.smi("--query-gpu=driver_version", "--format=csv,noheader").stdout.splitlines()[0]
    new = host.smi("--query-gpu=kmd_version", "--format=csv,noheader")
    if host.branch >= 600:
        assert old == "[Requested functionality has been deprecated]"
        assert (new.returncode, new.stdout.splitlines()[0]) == (0, host.driver)
        assert "<cuda_umd_version>" in long and "<cuda_version>" not in long
    else:
        assert old == host.driver
        assert (new.returncode, "is not a valid field to query" in new.stdout) == (2, True)
    assert ("<fabric>" in long) == (host.branch >= 535)
    assert ("<gpu_recovery_action>" in long) == (host.branch >= 570)
    assert ("<clocks_throttle_reasons>" in long) == (host.branch < 535)


KERNEL = "NVRM: Xid (PCI:0000:11:00{}): {}"
SPOILT: dict[str, tuple[Callable[[Host], None], str]] = {
    "lost": (lambda host: host.change(f"1, {UUIDS[1]}", "1, ERROR"), "device handle"),
    "reset": (
        lambda host: host.table("utilization.gpu", "0", "[GPU requires reset]", "0"),
        "GPU requires reset",
    ),
    "fan": (lambda host: host.table("fan.speed", "30", "ERR!", "30"), "ERR!"),
    "unasked": (
        lambda host: host.table("encoder.stats", "0", "[Unknown Error]", "0"),
        "Unknown Error",
    ),
    "memory": (
        lambda host: host.change(
            f"{UUIDS[1]}, 00000000:11:00.0, {paper.MODEL}, 81559 MiB",
            f"{UUIDS[1]}, 00000000:11:00.0, {paper.MODEL}, [GPU is lost]",
        ),
        "GPU is lost",
    ),
    "mig": (
        lambda host: host.table("mig.mode.current", "Disabled", "Enabled", "[N/A]"),
        "MIG is enabled",
    ),
    "counted": (
        lambda host: host.table("ecc.errors.uncorrected.volatile.total", "0", "2", "[N/A]"),
        "2 uncorrectable",
    ),
    "asked for": (
        lambda host: host.table("gpu_recovery_action", "None", "Drain and Reset", "None"),
        "Drain and Reset",
    ),
    "reset asked for": (
        lambda host: host.table("reset_status.reset_required", "No", "Yes", "[N/A]"),
        "Reset",
    ),
    "rows": (lambda host: host.table("remapped_rows.failure", "No", "Yes", "No"), "rows"),
    "xid": (lambda host: host.write("kernel.log", KERNEL.format("", "79, pid=1")), "Xid 79"),
    "xid in a part": (
        lambda host: host.write(
            "kernel.log", KERNEL.format(" GPU-I:01 GPU-CI:02", "95, pid=9, name=a")
        ),
        "Xid 95",
    ),
    "xid, old": (
        lambda host: host.write("kernel.log", "NVRM: Xid (0000:11:00): 48, 0003"),
        "Xid 48",
    ),
    "xid, oldest": (
        lambda host: host.write("kernel.log", "NVRM: Xid (0011:00): 48, 0003"),
        "Xid 48",
    ),
    "xid with function": (
        lambda host: host.write("kernel.log", KERNEL.format(".0", "119, Timeout")),
        "Xid 119",
    ),
    "recovery": (
        lambda host: host.write(
            "kernel.log",
            KERNEL.format(
                "", "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
            ),
        ),
        "GPU Reset Required",
    ),
    "nvlink": (
        lambda host: host.write(
            "kernel.log", KERNEL.format("", "149, NETIR_LINK_DOWN Fatal XC0 i0 Link 08")
        ),
        "Xid 149",
    ),
    "gone": (
        lambda host: host.write(
            "kernel.log",
            "NVRM: GPU at PCI:0000:11:00.0: GPU has fallen off the bus.\n"
            "NVRM: GPU 0000:11:00.0: GPU has fallen off the bus.",
        ),
        "fell off the bus",
    ),
}


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        (driver, kind)
        for kind in SPOILT
        for driver in (TELLING if kind == "reset asked for" else DRIVERS)
    ],
    indirect=["host"],
)
def test_each_error_costs_its_card_and_no_other(host: Host, kind: str) -> None:
    """F-REAL-05, F-REAL-06: in whatever field, form, stream or log it stands; and it is named."""
    spoil, words = SPOILT[kind]
    spoil(host)
    facts = host.facts()
    assert len(facts.gpus or ()) == (2 if kind == "lost" else 3)
    assert verdict(facts, 2).usable == 0b101
    refused = verdict(facts, 3)
    assert (refused.rule, words in refused.detail) == ("gpu_faulty", True), refused.detail
    assert UUIDS[1] in refused.detail


HARMLESS: dict[str, Callable[[Host], None]] = {
    "nonfatal": lambda host: host.write(
        "kernel.log",
        KERNEL.format("", "145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x00000000)\n")
        + "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20009, Non-fatal, Link 28 RX Short",
    ),
    "recovered": lambda host: host.write(
        "kernel.log",
        KERNEL.format("", "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset)\n")
        + KERNEL.format("", "154, GPU recovery action changed from 0x1 (GPU Reset) to 0x0 (None)"),
    ),
    "program": lambda host: host.write("kernel.log", KERNEL.format("", "31, pid=4, MMU Fault")),
    "deprecated": lambda host: host.table(
        "clocks.sm", *["[Requested functionality has been deprecated]"] * 3
    ),
    "unsupported": lambda host: host.table("fan.speed", "[N/A]", "[Not Supported]", "N/A"),
    "another total": lambda host: host.change("81559 MiB", "81920 MiB"),
    "infoROM": lambda host: host.table("inforom", "sound", "corrupted", "sound"),
    "odd names": lambda host: host.write(
        "apps.csv", f"gpu_uuid, pid, process_name\n{UUIDS[1]}, 9, a<b&c \x1b[2J\x01]]>\n"
    ),
    "fabric": lambda host: (
        host.table("fabric.state", *["Completed"] * 3),
        host.table("fabric.status", *["Success"] * 3),
    )[-1],
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_is_no_error_costs_nothing(host: Host, kind: str) -> None:
    """F-REAL-05, F-REAL-06, F-REAL-07: nothing is out for it, but that a card is in use."""
    HARMLESS[kind](host)
    facts = host.facts()
    expected = "gpu_busy" if kind == "odd names" else ""
    assert verdict(facts, 3).rule == expected
    assert verdict(facts, 2).rule == ""
    if kind == "infoROM":
        assert (facts.card_errors or {})[BUS[1]] == ("inforom corrupted",)
        assert "infoROM is corrupted" in said(facts)


FABRICS: dict[str, Callable[[Host], None]] = {
    "sxid": lambda host: host.write(
        "kernel.log",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    ),
    "manager": lambda host: (
        add_switch(host),
        host.write("fabricmanager", "LoadState=loaded\nActiveState=failed\nUnitFileState=enabled"),
    )[-1],
    "no manager": lambda host: add_switch(host),
}


def add_switch(host: Host) -> None:
    folder = host.root / "sys/bus/pci/devices/0000:c1:00.0"
    folder.mkdir()
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x068000\n")


@pytest.mark.parametrize("kind", FABRICS)
def test_a_fabric_that_is_not_sound_makes_the_host_unfit(host: Host, kind: str) -> None:
    """F-REAL-05: a fatal error of a switch, and a manager that does not run."""
    FABRICS[kind](host)
    assert verdict(host.facts()).rule == "fabric_faulty"


@pytest.mark.parametrize("host", TELLING, indirect=True)
@pytest.mark.parametrize(
    ("state", "status"),
    [("In Progress", "[N/A]"), ("Not Started", "[N/A]"), ("Completed", "Failure")],
)
def test_a_fabric_that_is_not_complete_takes_its_cards_out(
    host: Host, state: str, status: str
) -> None:
    """F-REAL-05: as each card says, where its driver can say."""
    host.table("fabric.state", *[state] * 3)
    host.table("fabric.status", *[status] * 3)
    refused = verdict(host.facts())
    assert (refused.rule, state in refused.detail) == ("gpu_faulty", True)


@pytest.mark.parametrize(
    ("wording", "stream"),
    [
        ("GPU1: 0000:11:00.0", 2),
        ("gpu 0000:11:00.0", 1),
        ("GPU 0000:11:00.0", 2),
        ("GPU0000:11:00.0", 1),
    ],
)
@pytest.mark.parametrize("cut", [True, False], ids=["cut short", "goes on"])
def test_a_lost_card_in_every_wording(host: Host, wording: str, stream: int, cut: bool) -> None:
    """F-REAL-06: on either stream, and whether or not the driver tells of the others after it."""
    words = f"Unable to determine the device handle for {wording}: Unknown Error"
    keep = "sed '/11:00/,$d'" if cut else f"grep -v -e 11:00 -e {UUIDS[1]}"
    lost = f"echo '{words}' >&{stream}; exit 15"
    alone = f'*11:00.0*) {lost} ;; *-i*) exec $real "$@" ;;'
    host.wrap(f'case "$*" in {alone} esac\n$real "$@" | {keep}; {lost}\n')
    facts = host.facts()
    assert [gpu.uuid for gpu in facts.gpus or ()] == [UUIDS[0], UUIDS[2]]
    assert verdict(facts, 2).usable == 0b101
    assert wording in verdict(facts, 3).detail


@pytest.mark.parametrize("code", [14, 0])
@pytest.mark.parametrize("long_too", [True, False])
def test_a_damaged_inforom_is_a_mark(host: Host, code: int, long_too: bool) -> None:
    """F-REAL-06: with 14 and with 0, before the answer and after it, on every question or some."""
    skip = "" if long_too else 'case "$*" in *-x*) exec $real "$@" ;; esac\n'
    words = "WARNING: infoROM is corrupted at gpu 0000:11:00.0"
    host.wrap(f"{skip}echo '{words}'; $real \"$@\"; echo '{words}'; exit {code}\n")
    facts = host.facts()
    assert verdict(facts, 3).rule == ""
    assert facts.card_errors == {BUS[1]: ("inforom corrupted",)}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (18, "Failed to initialize NVML: Driver/library version mismatch"),
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."),
    ],
)
def test_a_driver_that_does_not_answer_is_heard(host: Host, code: int, words: str) -> None:
    """F-REAL-14: its own words are kept, and the rest of the host is told."""
    host.write("failure.txt", f"{code}\n{words}\nNVML library version: 580.95\n")
    facts = host.facts()
    assert (facts.gpus, facts.card_errors) == (None, None)
    assert [p.message for p in facts.problems if p.probe == "gpus"] == [
        f"nvidia-smi ended with {code}: {words} NVML library version: 580.95"
    ]
    assert (facts.descriptors, facts.cpus) == ({}, "0-23")
    refused = verdict(facts)
    assert (refused.rule, words in refused.detail) == ("readiness_incomplete", True)


def test_an_old_driver_is_refused_with_a_way(tmp_path: Path) -> None:
    """F-REAL-06: what is too old to be read is named, with what to do."""
    lay(tmp_path, the_node(), shipped.templates())
    old = Host(root=tmp_path, driver="440.118.02-standin")
    old.change("580.105.08-standin", old.driver)
    refused = verdict(old.facts())
    assert refused.rule == "readiness_incomplete"
    assert "driver 440.118.02-standin is older than branch 450" in refused.detail
    assert "install a driver of branch 450 or newer" in refused.detail


def test_what_was_given_back_is_proved(host: Host) -> None:
    """F-REAL-04, F-PLC-04: a clean slot passes in every form, one with an error tells of it."""
    host.write("kernel.log", KERNEL.format("", "31, pid=4, MMU Fault"))
    facts = host.facts()
    passed = {check.name: check for check in proof(facts).checks}
    for name in ("processes on s1", "memory of s1", "errors of s1"):
        assert passed[name].result is CheckResult.PASS
    assert passed["errors of s1"].value == "xid 31"
    host.write("apps.csv", f"gpu_uuid, pid, process_name\n{UUIDS[1]}, 9, python\n")
    found = {check.name: check.result for check in proof(host.facts()).checks}
    assert found["processes on s1"] is CheckResult.FAIL


def proof(facts: NodeFacts) -> Proof:
    claim = replace(paper.claim("a", "gpu01", "s1"), state=ClaimState.RELEASING)
    step = Step(
        id="1",
        verb="allocation.release",
        node="gpu01",
        ref=claim.ref,
        order=Order.RETIRE,
        item=make_item("allocation.release", id=claim.allocation_id),
        expected={f"/home/{claim.allocation_id}": None},
    )
    seen = Observation(node="gpu01", at="2026-12-01T12:00:00Z", facts=facts)
    idle = dict.fromkeys(UUIDS, 9)
    (made,) = prove(
        [claim], [step], seen, "2026-12-01T12:00:00Z", inventory_of(the_node().spec.slots, idle)
    )
    return made
