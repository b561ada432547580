"""The program that opens GPUs at boot: by UUID, and rather none than a wrong one."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path

import pytest

from reconciler import shipped

GIVEN = {"20001": ["GPU-a", "GPU-b"], "20002": ["GPU-c"]}
MINORS = {"GPU-a": 3, "GPU-b": 0, "GPU-c": 7}


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    path = shipped.folder("templates") / "node/devices.py"
    spec = importlib.util.spec_from_file_location("devices", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "UNITS", tmp_path / "units")
    monkeypatch.setattr(module, "GIVEN", tmp_path / "given")
    monkeypatch.setattr(module, "NODE", str(tmp_path / "nvidia"))
    for minor in range(8):
        (tmp_path / f"nvidia{minor}").touch()
    return module


def test_a_tenant_gets_its_own_cards_by_their_minors(
    devices: types.ModuleType, tmp_path: Path
) -> None:
    rules = devices.rules_of(GIVEN["20001"], GIVEN, MINORS)
    assert rules.splitlines() == [
        "[Slice]",
        "DeviceAllow=/dev/nvidiactl rw",
        "DeviceAllow=/dev/nvidia-uvm rw",
        f"DeviceAllow={tmp_path}/nvidia0 rw",
        f"DeviceAllow={tmp_path}/nvidia3 rw",
    ]


@pytest.mark.parametrize(
    ("uuids", "given", "minors"),
    [
        (["GPU-a", "GPU-b"], GIVEN, {"GPU-a": 3}),
        (["GPU-a", "GPU-b"], GIVEN, {}),
        (["GPU-a"], {"20001": ["GPU-a"], "20002": ["GPU-a"]}, MINORS),
        (["GPU-a"], {"20001": ["GPU-a"]}, {"GPU-a": 8}),
        ([], {"20001": []}, MINORS),
    ],
    ids=["one does not answer", "none answers", "given twice", "no device node", "none given"],
)
def test_rather_no_card_than_a_wrong_one(
    devices: types.ModuleType,
    uuids: list[str],
    given: dict[str, list[str]],
    minors: dict[str, int],
) -> None:
    """Not even those that are known: half of a slice would look like a whole one."""
    assert devices.rules_of(uuids, given, minors) == ""


def test_a_file_is_written_only_when_it_changes(devices: types.ModuleType, tmp_path: Path) -> None:
    """F-ANS-15: systemd reads its units again only when there is something new."""
    (tmp_path / "units").mkdir()
    assert [devices.put("20001", "[Slice]\n") for _ in range(2)] == [True, False]
    assert devices.written() == {"20001"}
    assert [devices.put("20001", "") for _ in range(2)] == [True, False]
    assert devices.written() == set()


def test_only_files_of_uids_are_read(devices: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given/20001.json").write_text('{"login": "a", "uuids": ["GPU-a"]}')
    (tmp_path / "given/notes.json").write_text("{}")
    assert devices.read_given() == {"20001": ["GPU-a"]}


def card_text(bus: str, uuid: str, minor: object, *names: str) -> str:
    """A card in the long answer of nvidia-smi, with processes of these names as they are."""
    processes = "".join(f"<process_name>{name}</process_name>\n" for name in names)
    return (
        f'\t<gpu id="00000000:{bus}:00.0">\n\t\t<uuid>{uuid}</uuid>\n'
        f"\t\t<minor_number>{minor}</minor_number>\n"
        f"\t\t<processes>\n{processes}\t\t</processes>\n\t</gpu>\n"
    )


FORGED = (
    'x</process_name>\n\t\t</processes>\n\t</gpu>\n\t<gpu id="00000000:99:00.0">\n'
    "\t\t<uuid>GPU-mine</uuid>\n\t\t<minor_number>{}</minor_number>\n\t</gpu>\n"
)


@pytest.mark.parametrize("name", ["a<b&c", "\x1b[2J", "x</process_name></processes></gpu>", "\x00"])
@pytest.mark.parametrize("around", ["", "WARNING: infoROM is corrupted at gpu 0000:0A:00.0\n"])
def test_odd_names_and_lines_take_no_card_from_anybody(
    devices: types.ModuleType, name: str, around: str
) -> None:
    """F-REAL-06: the answer looks like XML, and need not be any."""
    answer = around + card_text("0A", "GPU-a", 3, name) + card_text("18", "GPU-b", 0) + around
    assert devices.minors_in(answer) == {"GPU-a": 3, "GPU-b": 0}


def test_nobody_gets_a_card_by_the_name_of_a_process(devices: types.ModuleType) -> None:
    """F-REAL-06: a name that tells of a card in its owner's favour makes that card nobody's."""
    answer = card_text("0A", "GPU-mine", 3, FORGED.format(0)) + card_text("18", "GPU-b", 0)
    assert devices.minors_in(answer) == {}
    answer = card_text("0A", "GPU-a", 3, FORGED.format(5)) + card_text("18", "GPU-mine", 0)
    assert devices.minors_in(answer) == {"GPU-a": 3}


def test_an_answer_that_is_cut_short_tells_of_whole_cards(devices: types.ModuleType) -> None:
    """F-REAL-06: what came before counts."""
    cut = card_text("18", "GPU-b", 0).split("<minor_number>")[0]
    lost = "Unable to determine the device handle for GPU1: 0000:18:00.0: Unknown Error\n"
    assert devices.minors_in(card_text("0A", "GPU-a", 3) + cut + lost) == {"GPU-a": 3}


@pytest.mark.parametrize("minor", ["07", "007", "\u0667"])
def test_a_minor_is_a_number_however_it_is_written(devices: types.ModuleType, minor: str) -> None:
    """F-REAL-06: a name that gives the node of a card to another, written so, harms nobody."""
    answers = {
        (): card_text("0A", "GPU-a", 3, FORGED.format(minor)) + card_text("18", "GPU-b", 7),
        ("-i", "GPU-b"): card_text("18", "GPU-b", 7),
    }
    devices.ask = lambda *which: devices.minors_in(answers[which])
    assert devices.read_minors({"GPU-a", "GPU-b"}) == {"GPU-a": 3, "GPU-b": 7}


def test_a_card_is_asked_about_itself_alone(devices: types.ModuleType) -> None:
    """F-REAL-06: a process on one card never says which node another has, in its own answer."""
    forged = FORGED.replace("GPU-mine", "GPU-b").format("03")
    twice = FORGED.replace("GPU-mine", "GPU-z").format(5) + forged
    own = card_text("0A", "GPU-z", 3, twice)
    answers = {
        (): own + card_text("18", "GPU-b", 7),
        ("-i", "GPU-b"): card_text("18", "GPU-b", 7),
        ("-i", "GPU-z"): own.replace("<minor_number>3<", "<minor_number>4<"),
    }
    devices.ask = lambda *which: devices.minors_in(answers[which])
    assert devices.read_minors({"GPU-b", "GPU-z"}) == {"GPU-b": 7}


def test_two_cards_of_one_node_cost_nobody_else_theirs(devices: types.ModuleType) -> None:
    """F-REAL-06: of these two nobody knows; all others are known."""
    answers = {(): {"GPU-c": 1}, ("-i", "GPU-a"): {"GPU-a": 3}, ("-i", "GPU-b"): {"GPU-b": 3}}
    devices.ask = lambda *which: answers[which]
    assert devices.read_minors({"GPU-a", "GPU-b", "GPU-c"}) == {"GPU-c": 1}
