"""Probes that fail on a host: what they would have told is unknown, and nothing is done on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.operations import observe
from reconciler.operations.apply.wave import work
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import run_options
from tests.harness.applied_fleet import BOX
from tests.harness.yard import Yard, copy_of, laid
from tests.planner import fleet as paper

TRAIN = paper.allocation("train", node="gpu01")
REF = "allocation/vision/train"
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


def tool(root: Path) -> Path:
    return root / "usr/bin/nvidia-smi"


def says(text: str, code: int) -> Callable[[Path], None]:
    """A tool that says this whatever it is asked."""

    def spoil(root: Path) -> None:
        tool(root).write_text(f'#!/bin/sh\necho "{text}"\nexit {code}\n')

    return spoil


def is_gone(root: Path) -> None:
    tool(root).unlink()


def is_a_link_away(root: Path) -> None:
    place = root / "etc/gpuaas/allocations"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to("/nowhere")


def impatient(fleet: Fleet) -> RunOptions:
    return replace(run_options(fleet), observe_timeout_s=1)


SPOILT = {
    "gone": (is_gone, "probe gpus: nvidia-smi is not there"),
    "no driver": (says(NO_DRIVER, 9), f"probe gpus: nvidia-smi ended with 9: {NO_DRIVER}"),
    "garbage": (says("<html>", 0), "probe gpus: nvidia-smi answers what it should not: <html>"),
    "a link": (is_a_link_away, "probe descriptors: /etc/gpuaas/allocations: allocations is no"),
}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """One node and one allocation for it, nothing observed yet."""
    return laid(tmp_path_factory.mktemp("fresh"), {"gpu01": 2}, TRAIN)


@pytest.mark.parametrize("how", SPOILT)
def test_nothing_is_made_on_a_host_with_a_failed_probe(
    fresh: Yard, tmp_path: Path, how: str
) -> None:
    """F-ANS-03, INV-15: unknown, not empty; no claim, no play, and the message names the probe."""
    yard = copy_of(fresh, tmp_path / "yard")
    spoil, said = SPOILT[how]
    spoil(yard.root("gpu01"))
    before = yard.hosts()
    done = yard.apply()
    assert done.code == 3
    assert REF in done.blocked
    assert said in str(yard.gpuaas("explain", REF).document), yard.gpuaas("explain", REF).document
    assert (yard.claims, yard.hosts()) == ({}, before)
    assert not (yard.folder / "state/runs").exists() or not yard.runs


def test_nothing_is_made_on_a_host_that_does_not_answer_in_time(
    fresh: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ANS-03: the probe runs out of time."""
    yard = copy_of(fresh, tmp_path / "yard")
    tool(yard.root("gpu01")).write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(observe, "run_options", impatient)
    done = yard.apply()
    assert done.code == 3
    assert "no answer within 1 s" in str(yard.gpuaas("explain", REF).document)
    assert yard.claims == {}


@pytest.mark.walk
@pytest.mark.parametrize("how", ["gone", "no driver", "garbage"])
def test_a_slot_whose_card_nobody_sees_is_not_given_back(yard: Yard, how: str) -> None:
    """F-ANS-03, INV-15: what was asked for is taken away, and the slot stays held."""
    yard.remove(BOX)
    yard.commit()
    SPOILT[how][0](yard.root("gpu03"))
    done = yard.apply()
    assert (done.code, done.problems) == (1, ["cleanup_blocked"])
    assert "processes on s0 unknown (not seen)" in done.messages
    assert yard.claims["allocation/nlp/box@gpu03/*"] == "cleanup_blocked"


@pytest.mark.walk
def test_silence_proves_nothing(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-ANS-03: a host that is not seen again after a release keeps its slots."""
    yard.remove(BOX)
    yard.commit()
    tool(yard.root("gpu03")).write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(work, "run_options", impatient)
    monkeypatch.setattr(observe, "run_options", impatient)
    done = yard.apply()
    assert done.code == 1
    assert "host_timeout" in done.problems
    assert "no answer within 1 s" in done.messages
    assert yard.claims["allocation/nlp/box@gpu03/*"] != "freed"


def test_a_fault_of_a_card_outlives_the_program_and_goes_with_the_next_sound_look(
    fresh: Yard, tmp_path: Path
) -> None:
    """F-PLC-08 F-PLC-09 INV-10: by what is recorded, each command anew; only a look lifts it."""
    yard = copy_of(fresh, tmp_path / "yard")
    log = yard.root("gpu01") / "etc/gpuaas-standin/kernel.log"
    said = "NVRM: Xid (PCI:0000:11:00): 79, pid=7, GPU has fallen off the bus.\n"

    def states() -> dict[str, str]:
        shown = yard.gpuaas("node", "show", "gpu01").document["result"]
        return {slot["slot"]["name"]: slot["state"] for slot in shown["slots"]}

    log.write_text(said)
    assert yard.gpuaas("plan", "--refresh").code == 0
    assert states() == {"s0": "free", "s1": "not_ready"}
    log.unlink()
    assert states() == {"s0": "free", "s1": "not_ready"}, "nobody has looked again"
    shown = yard.gpuaas("node", "show", "gpu01").document["result"]
    (check,) = (check for check in shown["readiness"] if check["name"] == "card errors")
    assert check["result"] == "fail" and "Xid 79, fell off the bus" in check["value"]
    assert yard.gpuaas("plan", "--refresh").code == 0
    assert states() == {"s0": "free", "s1": "free"}
