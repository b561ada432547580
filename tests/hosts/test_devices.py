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
