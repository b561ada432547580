"""The stand-in answers as its Node says, is labelled, and spares what is not its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler import shipped
from reconciler.hosts.payload import carried
from reconciler.model.problem import ProblemError
from reconciler.model.spec.resource import Resource
from reconciler.operations.node.directory_host import lay
from tests.bench.hosts import answer_at_once, look
from tests.planner import fleet

QUERY = "--query-gpu=index,uuid,pci.bus_id,name,memory.total,memory.used,driver_version"
CARD = "GPU-00000000-dead-beef-0000-00000000000{}"
OBSERVE = carried(shipped.folder("playbooks") / "module_utils/gpuaas", "observe")


@pytest.fixture
def node() -> Resource:
    slots = [
        fleet.slot(
            "gpu01",
            number,
            numa=number // 2,
            cpus=f"{number * 8 + 2}-{number * 8 + 7}",
            nvme={"id": f"nvme-eui.{number}", "sizeGiB": 100},
            nic={
                "pciAddress": f"0000:{0x40 + number:02x}:00.0",
                "name": f"mlx5_{number}",
                "rdma": True,
            },
        )
        for number in range(4)
    ]
    for number, slot in enumerate(slots):
        slot["gpu"]["uuid"] = CARD.format(number)
    reserve = {"cpus": "0-1,8-9,16-17,24-25", "memoryGiB": 16}
    return fleet.resource(fleet.node("gpu01", slots, reserve=reserve))


@pytest.fixture
def root(tmp_path: Path, node: Resource) -> Path:
    folder = tmp_path / "state/hosts/gpu01"
    lay(folder, node, shipped.templates())
    return folder


def ask(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = root / "usr/bin/nvidia-smi"
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True)


def observe(root: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-I", "-", json.dumps({"root": str(root)})],
        input=OBSERVE,
        check=True,
        capture_output=True,
    )
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_it_is_observed_as_its_node_says_and_as_a_stand_in(root: Path, node: Resource) -> None:
    """INV-01 … 05: the real parser reads each device, and every reader is told what it is."""
    facts = observe(root)
    assert facts["source"] == "standin"
    assert facts["problems"] == []
    cards = {card["uuid"]: card for card in facts["gpus"]}
    for slot in node.spec.slots:
        card = cards[slot.gpu.uuid]
        assert card["pciAddress"] == slot.gpu.pci_address
        assert card["model"] == slot.gpu.model
        assert (card["memoryMiB"], card["numa"]) == (slot.gpu.memory_mib, slot.numa)
        assert (card["processes"], card["driver"].endswith("-standin")) == ([], True)
        assert facts["nics"][slot.nic.pci_address] == slot.nic.name
    assert len(cards) == 4
    assert facts["nvmes"] == [slot.nvme.id for slot in node.spec.slots]
    assert facts["memoryMiB"] == (4 * 64 + 16) * 1024
    assert facts["cpus"] == "0-15,16-31"
    assert facts["os"] == "debian-12"
    assert (facts["paths"], facts["descriptors"]) == ({}, {})


def test_it_answers_in_the_formats_of_the_real_one(root: Path) -> None:
    header, first, *_ = ask(root, QUERY, "--format=csv").stdout.splitlines()
    assert header == (
        "index, uuid, pci.bus_id, name, memory.total [MiB], memory.used [MiB], driver_version"
    )
    assert first == (
        "0, GPU-00000000-dead-beef-0000-000000000000, 00000000:10:00.0, NVIDIA H100 80GB HBM3,"
        " 81559 MiB, 9 MiB, 580.105.08-standin"
    )
    bare = ask(root, "--query-gpu=memory.used,uuid", "--format=csv,noheader,nounits").stdout
    assert bare.splitlines()[0] == "9, GPU-00000000-dead-beef-0000-000000000000"
    assert ask(root, "-L").stdout.splitlines()[3] == (
        "GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-dead-beef-0000-000000000003)"
    )


@pytest.mark.parametrize(
    "arguments", [(), ("--query-gpu=uuid",), ("--query-gpu=soul", "--format=csv"), ("--reset",)]
)
def test_what_it_does_not_know_is_no_success(root: Path, arguments: tuple[str, ...]) -> None:
    assert ask(root, *arguments).returncode != 0


def test_processes_written_into_its_table_are_told_and_stay(root: Path, node: Resource) -> None:
    with (root / "etc/gpuaas-standin/apps.csv").open("a") as table:
        table.write("GPU-00000000-dead-beef-0000-000000000002, 4711, python train.py\n")
    lay(root, node, shipped.templates())
    assert [card["processes"] for card in observe(root)["gpus"]] == [[], [], [4711], []]


def test_one_that_answers_at_once_answers_alike(root: Path) -> None:
    """What is measured on it is a look at a host as there are others."""
    slow = look(root)
    answer_at_once(root)
    assert look(root) == slow
    assert (ask(root, "-L").returncode, len(ask(root, "--reset").stdout)) == (2, 0)


def test_laying_it_again_changes_nothing(root: Path, node: Resource) -> None:
    def picture() -> dict[str, Any]:
        found = (path for path in root.rglob("*") if path.is_file() or path.is_symlink())
        return {
            str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in found
        }

    before = picture()
    lay(root, node, shipped.templates())
    assert picture() == before
    assert all(path.exists() for path in root.rglob("*")), "a link leads nowhere"


def test_every_file_with_room_for_a_label_has_one(root: Path) -> None:
    """A stand-in must never pass for a host: kernel formats alone have no room for words."""
    labelled = [
        path for path in root.rglob("*") if path.is_file() and "TEST STAND-IN" in path.read_text()
    ]
    bare = {path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file()} - {
        path.relative_to(root).parts[0] for path in labelled
    }
    assert bare <= {"sys", "proc"}
    assert (root / "usr/bin/nvidia-smi") in labelled
    assert (root / "README.txt") in labelled


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path, node: Resource) -> None:
    (tmp_path / "usr").mkdir()
    with pytest.raises(ProblemError) as refused:
        lay(tmp_path, node, shipped.templates())
    assert [problem.code for problem in refused.value.problems] == ["path_unsafe"]
    assert [path.name for path in tmp_path.iterdir()] == ["usr"]
