"""The observe code on folders that answer like hosts, in every shape that real tools have."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpuaas import observe as code
from gpuaas import platform_state
from gpuaas import smi as smi_calls

from reconciler import shipped
from reconciler.kinds.node import node as node_kind
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.operations.node import directory_host
from reconciler.planner.core.facts import shown

UUIDS = ("GPU-eb6c0716-025b-941f-3e3d-bab07b5a9539", "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")
ROWS = (
    f"0, {UUIDS[0]}, 00000000:0A:00.0, NVIDIA H100 80GB HBM3, 81559, 9, 580.105.08, 0",
    f"1, {UUIDS[1]}, 00000000:18:00.0, NVIDIA H100 80GB HBM3, 81559, 12, 580.105.08, 37",
)
LOST = "Unable to determine the device handle for GPU0000:18:00.0: Unknown Error"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)


QUIET_FIELDS = "Disabled, 0, [N/A], Disabled, Enabled, 30, [N/A], P0, 70.10, 345"


def smi(root: Path, cards: str, processes: str = "", code: int = 0) -> None:
    """An nvidia-smi that prints these texts; rows of eight fields get the other ones.

    TEST STAND-IN, not a GPU.
    """
    lines = cards.splitlines()
    cards = "".join(
        f"{line}, {QUIET_FIELDS}\n" if line.count(",") == 7 else f"{line}\n" for line in lines
    )
    script = root / "usr/bin/nvidia-smi"
    script.parent.mkdir(parents=True, exist_ok=True)
    (root / "cards").write_text(cards)
    (root / "processes").write_text(processes)
    script.write_text(
        f'#!/bin/sh\ncase "$1" in\n--query-gpu*) cat {root}/cards; exit {code} ;;\n'
        f"--query-compute*) cat {root}/processes ;;\nesac\n"
    )
    script.chmod(0o755)


def cards_of(root: Path, *rows: str, **more: Any) -> tuple[Any, list[str]]:
    smi(root, "".join(row + "\n" for row in rows), **more)
    facts = code.observe({"root": str(root)})
    return facts.get("gpus"), [p["message"] for p in facts["problems"] if p["probe"] == "gpus"]


def node(*slots: dict[str, Any]) -> Resource:
    spec = {"address": "local", "family": "h100", "isolation": "directory", "slots": list(slots)}
    return Resource(
        ref=Ref("node", "", "gpu01"),
        spec=node_kind.parse(spec, "gpu01"),
        normal={"labels": {}, "spec": spec},
        digest="",
        file="node.yaml",
    )


def slot(name: str, uuid: str, address: str, numa: int, cpus: str) -> dict[str, Any]:
    gpu = {"uuid": uuid, "pciAddress": address, "model": "NVIDIA H100", "memoryMiB": 81559}
    return {
        "name": name,
        "gpu": gpu,
        "numa": numa,
        "cpus": cpus,
        "memoryGiB": 16,
        "nvme": {"id": f"nvme-eui.{name}", "sizeGiB": 3500},
        "nic": {"pciAddress": f"0000:0{numa + 2}:00.0", "name": f"mlx5_{numa}", "rdma": True},
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A labelled stand-in of two slots, as the demo has."""
    slots = (
        slot("s0", UUIDS[0], "0000:0a:00.0", 0, "0-7"),
        slot("s1", UUIDS[1], "0000:18:00.0", 1, "8-15"),
    )
    directory_host.lay(tmp_path / "root", node(*slots), shipped.templates())
    return tmp_path / "root"


def test_a_stand_in_is_read_by_the_real_parsers_and_says_what_it_is(root: Path) -> None:
    facts = code.observe({"root": str(root)})
    assert facts["problems"] == []
    assert facts["source"] == "standin"
    assert facts["os"] == "debian-12"
    assert facts["cpus"] == "0-7,8-15"
    assert facts["memoryMiB"] == 40 * 1024
    assert facts["nvmes"] == ["nvme-eui.s0", "nvme-eui.s1"]
    assert facts["nics"] == {"0000:02:00.0": "mlx5_0", "0000:03:00.0": "mlx5_1"}
    assert len(facts["machineId"]) == 32 and facts["bootId"]
    assert facts["gpus"][1] == {
        "uuid": UUIDS[1],
        "pciAddress": "0000:18:00.0",
        "model": "NVIDIA H100",
        "memoryMiB": 81559,
        "memoryUsedMiB": 9,
        "driver": "580.105.08-standin",
        "minor": 1,
        "numa": 1,
        "processes": [],
    }


def test_cards_are_known_by_uuid_whatever_their_order(root: Path) -> None:
    """F-PLC-03: another order of the same cards is the same answer; a replaced one is seen."""
    before, _ = cards_of(root, *ROWS, processes=f"{UUIDS[1]}, 4242\n")
    turned, _ = cards_of(
        root,
        ROWS[1].replace("1,", "0,", 1),
        ROWS[0].replace("0,", "1,", 1),
        processes=f"{UUIDS[1]}, 4242\n",
    )
    assert turned == before
    assert [card["processes"] for card in turned] == [[], [4242]]
    assert [card["utilization"] for card in turned] == [0, 37]
    other = "GPU-99999999-025b-941f-3e3d-bab07b5a9539"
    replaced, _ = cards_of(root, ROWS[0].replace(UUIDS[0], other), ROWS[1])
    assert [card["uuid"] for card in replaced] == [other, UUIDS[1]]


def errors_of(root: Path, table: str, kernel: str = "") -> Any:
    """What the stand-in's own tables, with these columns more, make the probes say."""
    place = root / "etc/gpuaas-standin"
    header, *rows = [
        line for line in (place / "gpus.csv").read_text().splitlines() if not line.startswith("#")
    ]
    more = iter(table.splitlines())
    (place / "gpus.csv").write_text("".join(f"{row}, {next(more)}\n" for row in (header, *rows)))
    (place / "kernel.log").write_text(kernel)
    return code.observe({"root": str(root)}).get("cardErrors")


QUIET = "ecc.errors.uncorrected.volatile.total\n0\n0\n"


def test_errors_of_cards_are_told_by_their_address(root: Path) -> None:
    """F-PLC-08: what the driver counts is the card's own; the other has none."""
    columns = "ecc.errors.uncorrected.volatile.total, remapped_rows.pending\n"
    assert errors_of(root, f"{columns}0, No\n3, Yes\n") == {
        "0000:18:00.0": ["rows pending", "uncorrected 3"]
    }


def test_what_the_kernel_logged_is_told_also_of_a_card_that_is_gone(root: Path) -> None:
    """F-PLC-08: a card that fell off the bus has no name but its address."""
    kernel = (
        "NVRM: Xid (PCI:0000:18:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n"
        "NVRM: Xid (PCI:0000:18:00): 31, pid=4242, MMU Fault\n"
        "NVRM: GPU at PCI:0000:18:00: GPU-5b1c\n"
        "NVRM: Xid (PCI:00000000:3B:00): 13, pid=1\n"
    )
    assert errors_of(root, QUIET, kernel) == {
        "0000:18:00.0": ["xid 31", "xid 79"],
        "0000:3b:00.0": ["xid 13"],
    }


@pytest.mark.parametrize("said", ["[Unknown Error]", "[GPU requires reset]"])
def test_errors_that_a_card_cannot_tell_are_unknown_for_it_alone(root: Path, said: str) -> None:
    """F-ANS-03 F-PLC-08: no number is not zero, and takes nothing from the other card."""
    assert errors_of(root, f"ecc.errors.uncorrected.volatile.total\n{said}\n0\n") == {
        "0000:0a:00.0": [f"says {said[1:-1]}", "uncorrected unknown"]
    }


def test_a_driver_that_counts_no_errors_leaves_them_unknown(root: Path) -> None:
    """F-ANS-03: who does not answer for a card has not said that it is sound."""
    smi(root, "".join(f"{row}\n" for row in ROWS))
    errors = code.observe({"root": str(root)})["cardErrors"]
    unknown = ["rows failed unknown", "rows pending unknown"]
    assert errors == {"0000:0a:00.0": unknown, "0000:18:00.0": unknown}


def test_values_that_are_not_available_are_unknown(root: Path) -> None:
    row = f"0, {UUIDS[0]}, 00000000:0A:00.0, NVIDIA H100, [N/A], [Unknown Error], [N/A], [N/A]"
    ((card,), problems) = cards_of(root, row)
    assert not {"memoryMiB", "memoryUsedMiB", "utilization"} & set(card)
    assert card["driver"] == "580.105.08-standin", "as the kernel says of its module"
    assert problems == []


@pytest.mark.parametrize(
    "dead",
    [LOST, "1, [Unknown Error], 00000000:18:00.0, [GPU is lost], [N/A], [N/A], [N/A], [N/A]"],
)
def test_a_dead_card_is_missing_and_named(root: Path, dead: str) -> None:
    """F-ANS-03: the others are still known; the dead one is told, not passed over."""
    cards, problems = cards_of(root, ROWS[0], dead, code=15 if dead == LOST else 0)
    assert [card["uuid"] for card in cards] == [UUIDS[0]]
    assert "18:00.0" in problems[0]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (NO_DRIVER, 9, "communicate with the NVIDIA driver"),
        ("No devices were found", 6, "No devices were found"),
        ("No devices were found", 0, "No devices were found"),
        ("", 0, "no card"),
        ("<html>502 Bad Gateway</html>", 0, "answers what it should not"),
        ("\n".join((ROWS[0], ROWS[0])), 0, "one card twice"),
        (ROWS[0].replace("00000000:0A:00.0", "slot five"), 0, "no PCI address"),
        (ROWS[0], 3, "ended with 3"),
    ],
)
def test_a_failed_probe_is_unknown_and_names_itself(
    root: Path, text: str, status: int, said: str
) -> None:
    """F-ANS-03: no driver, no card, garbage and failure are None with a reason, never empty."""
    cards, problems = cards_of(root, text, code=status)
    assert cards is None
    assert said in problems[0]


@pytest.mark.parametrize("odd", ["0, GPU-", "<html>502</html>", "\x1b[2J", "WARNING: something"])
@pytest.mark.parametrize("first", [True, False])
def test_an_odd_line_costs_itself(root: Path, odd: str, first: bool) -> None:
    """F-REAL-06: it is noted, and the cards that answer are known."""
    lines = [odd, *ROWS] if first else [*ROWS, odd]
    cards, problems = cards_of(root, *lines)
    assert [card["uuid"] for card in cards] == list(UUIDS)
    assert "answers what it should not" in problems[0]


def test_a_missing_tool_is_unknown(root: Path) -> None:
    """F-ANS-03: the probe tool is gone."""
    (root / "usr/bin/nvidia-smi").unlink()
    facts = code.observe({"root": str(root)})
    assert "gpus" not in facts
    assert facts["problems"] == [{"probe": "gpus", "message": "nvidia-smi is not there"}]
    assert facts["source"] == "standin", "its mark still says so"


def test_a_tool_that_hangs_is_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-ANS-03: the probe runs out of time."""
    monkeypatch.setattr(smi_calls, "CALL_SECONDS", 0.2)
    (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    facts = code.observe({"root": str(root)})
    assert "gpus" not in facts
    assert "nvidia-smi did not answer within 0.2 s" in facts["problems"][0]["message"]


@pytest.mark.parametrize(
    "line",
    [
        "MIG-GPU-eb6c0716-025b-941f-3e3d-bab07b5a9539/1/0, 77",
        "MIG-5f1a2b3c-0000-5d4e-8f6a-123456789abc, 77",
        f"{UUIDS[0]}, [Not Supported]",
        "[Insufficient Permissions]",
    ],
)
def test_processes_that_belong_to_no_card_make_all_unknown(root: Path, line: str) -> None:
    """F-ANS-03: with MIG on, or without the right to look, nobody says that a card is idle."""
    smi(root, "\n".join(ROWS), processes=f"{line}\n")
    facts = code.observe({"root": str(root)})
    assert len(facts["gpus"]) == 2
    assert all("processes" not in card for card in facts["gpus"])
    assert "processes" in [p["probe"] for p in facts["problems"]]


def test_the_kernel_that_does_not_know_a_numa_node(root: Path) -> None:
    (root / "sys/bus/pci/devices/0000:0a:00.0/numa_node").write_text("-1\n")
    assert "numa" not in code.observe({"root": str(root)})["gpus"][0]


@pytest.mark.parametrize(
    ("gone", "fact", "probe"),
    [
        ("proc/meminfo", "memoryMiB", "memory"),
        ("etc/machine-id", "machineId", "machineId"),
        ("sys/devices/system/node/node0/cpulist", "cpus", "cpus"),
    ],
)
def test_each_probe_fails_alone(root: Path, gone: str, fact: str, probe: str) -> None:
    """F-ANS-03: the message names the probe, and the others answer."""
    (root / gone).unlink()
    facts = code.observe({"root": str(root)})
    assert fact not in facts
    assert [p["probe"] for p in facts["problems"]] == [probe]


def test_paths_are_told_as_they_are(root: Path) -> None:
    keys = root / "etc/gpuaas/ssh/train-a-abcd"
    keys.parent.mkdir(parents=True)
    keys.write_text("")
    keys.chmod(0o640)
    (keys.parent / "link").symlink_to("/etc/shadow")
    os.mkfifo(keys.parent / "pipe")
    home = root / "home/train-a-abcd/.ssh"
    home.mkdir(parents=True)
    home.parent.chmod(0o700)
    paths = code.observe({"root": str(root)})["paths"]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert paths["/etc/gpuaas/ssh/train-a-abcd"] == f"file 0640 sha256:{empty}"
    assert paths["/etc/gpuaas/ssh/link"] == "link /etc/shadow"
    assert paths["/etc/gpuaas/ssh/pipe"].startswith("other ")
    assert paths["/home/train-a-abcd"] == "dir 0700"
    assert "/home/train-a-abcd/.ssh" not in paths, "what a home holds is its owner's"


def test_a_name_of_odd_bytes_is_escaped(root: Path) -> None:
    (root / "home").mkdir(exist_ok=True)
    os.mkdir(os.fsencode(root / "home") + b"/a\xff\x1b[2J\\")
    answer = code.observe({"root": str(root)})
    assert "/home/a\\xff\\x1b[2J\\\\" in answer["paths"]
    json.dumps(answer).encode("ascii")


@pytest.mark.parametrize("place", ["etc/gpuaas", "home", "var/lib/gpuaas/scratch"])
def test_a_listing_that_fails_is_unknown(root: Path, place: str) -> None:
    """F-ANS-03: a link where a folder should be is no empty folder."""
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).symlink_to("/nowhere")
    facts = code.observe({"root": str(root)})
    assert facts["paths"][f"/{place}"].startswith("link ")
    read = NodeFacts(source="host", paths=facts["paths"])
    assert str(shown(read, f"/{place}/x")).startswith("unknown: ")


def test_a_listing_without_end_is_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_state, "MAX_PATHS", 3)
    for number in range(4):
        (root / f"home/{number}").mkdir(parents=True)
    assert "paths" not in code.observe({"root": str(root)})


def test_descriptors_say_whose_they_are(root: Path) -> None:
    folder = root / "etc/gpuaas/allocations"
    folder.mkdir(parents=True)
    (folder / "abcdefghij.json").write_text('{"stateId": "mine"}')
    (folder / "bbbbbbbbbb.json").write_text('{"stateId": 7}')
    (folder / "cccccccccc.json").write_text("[" * 100_000)
    (folder / "dddddddddd.json").symlink_to("abcdefghij.json")
    assert code.observe({"root": str(root)})["descriptors"] == {
        "abcdefghij": "mine",
        "bbbbbbbbbb": "",
        "cccccccccc": "",
        "dddddddddd": "",
    }


def test_descriptors_are_told_in_full_when_asked_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 21: on one line each, empty where there is none; more than that is no answer."""
    assert "descriptorTexts" not in code.observe({"root": str(root)})
    asked = {"root": str(root), "descriptors": True, "sweep": None}
    assert code.observe(asked)["descriptorTexts"] == {}
    folder = root / "etc/gpuaas/allocations"
    folder.mkdir(parents=True)
    (folder / "abcdefghij.json").write_text('{\n  "name": "\u00e9\\n"\n}')
    (folder / "bbbbbbbbbb.json").write_text("[]")
    (folder / "cccccccccc.json").write_text("[" * 100_000)
    (folder / "dddddddddd.json").symlink_to("abcdefghij.json")
    (folder / "eeeeeeeeee.json").write_text(json.dumps({"name": "x" * 5000}))
    os.mkfifo(folder / "ffffffffff.json")
    assert code.observe(asked)["descriptorTexts"] == {
        "abcdefghij": '{"name":"\\u00e9\\n"}',
        **dict.fromkeys((letter * 10 for letter in "bcdef"), ""),
    }
    monkeypatch.setattr(platform_state, "MAX_DESCRIPTORS", 5)
    facts = code.observe(asked)
    assert "descriptorTexts" not in facts
    assert "more than 5 descriptors" in str(facts["problems"])


def test_records_of_volumes_are_told_with_who_has_them(root: Path) -> None:
    """F-STO-04 rule 21: nobody is not the same as nobody can say."""
    asked = {"root": str(root), "descriptors": True, "sweep": None}
    assert "volumeTexts" not in code.observe({"root": str(root)})
    assert code.observe(asked)["volumeTexts"] == {}
    folder, place = root / "etc/gpuaas/volumes", root / "srv/volumes"
    folder.mkdir(parents=True)
    record = json.dumps({"backend": {"directory": {"path": "/srv/volumes"}}})
    for letter in "abcd":
        (folder / f"{letter * 10}.json").write_text("{" if letter == "d" else record)
    (folder / "passwd.json").symlink_to("/etc/passwd")
    holder = place / f"{'a' * 10}/holders/{'e' * 10}.m1"
    holder.parent.mkdir(parents=True)
    holder.write_text('{"allocation": "eeeeeeeeee"}')
    (place / ("b" * 10)).mkdir()
    told = code.observe(asked)["volumeTexts"]
    assert told.pop("d" * 10) == ""
    having = {id[0]: json.loads(text)["holders"] for id, text in told.items()}
    assert having == {"a": [{"allocation": "eeeeeeeeee"}], "b": [], "c": None}


def test_sizes_are_counted_up_to_a_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for login, count in (("a-abcd", 2), ("b-abcd", 30)):
        home = root / "home" / login
        home.mkdir(parents=True)
        for number in range(count):
            (home / str(number)).write_bytes(b"x" * 100)
        (home / "link").symlink_to("/proc")
    monkeypatch.setattr(platform_state, "MAX_SIZED", 10)
    facts = code.observe({"root": str(root)})
    assert facts["sizes"] == {"/home/a-abcd": 200}
    assert [p["probe"] for p in facts["problems"]] == ["sizes"]


def test_observing_changes_nothing(root: Path) -> None:
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    code.observe({"root": str(root)})
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before
