"""Restarts on a folder and their marks: what a host tells of how far one has come."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from gpuaas import restart, restarts
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import ProbeError, Probes
from gpuaas.restarts import BEGUN, DONE, ORDERED, Mark, read_restarts, text_of

from tests.harness.directory_host import ID, LOGIN

Completed = CompletedProcess[str]
MARK = f"etc/gpuaas/runtime/allocations/{ID}.restart"
OLD, NEW = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
ITEM: dict[str, Any] = {
    "id": ID,
    "login": LOGIN,
    "uid": 0,
    "generation": 1,
    "reboot": False,
    "gpus": ["GPU-aaaaaaaa-0000"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    boot(tmp_path, OLD)
    return tmp_path


def boot(root: Path, id: str) -> None:
    folder = root / "proc/sys/kernel/random"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "boot_id").write_text(f"{id}\n")


def run(root: Path, **changes: Any) -> bool:
    """Whether anything was changed."""
    folder = os.open(root, os.O_RDONLY)
    try:
        tree = Tree(folder, dry=False)
        restart.run(tree, {**ITEM, **changes})
        return tree.changed
    finally:
        os.close(folder)


def told(root: Path) -> dict[str, str]:
    return read_restarts(Probes(str(root)))


def marked(root: Path, **changes: Any) -> str:
    values = {"generation": 3, "state": DONE, "uid": 0, "boot_id": OLD, "uptime": 1.5}
    path = root / MARK
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(Mark(**{**values, **changes})))
    return told(root)[ID]


def test_a_generation_is_reached_once(root: Path) -> None:
    """RST-01: the host itself knows; whoever asks again, for whatever reason, changes nothing."""
    assert told(root) == {}
    assert run(root)
    assert told(root) == {ID: "generation 1"}
    first = (root / MARK).read_text()
    assert not run(root)
    assert (root / MARK).read_text() == first
    assert run(root, generation=2)
    assert told(root) == {ID: "generation 2"}
    with pytest.raises(Refusal, match="reached generation 2 already"):
        run(root)


def test_one_that_was_broken_off_is_finished(root: Path) -> None:
    """RST-01: a mark of what was begun is no end; the same generation is done to its end."""
    assert marked(root, generation=1, state=BEGUN) == "generation 1 begun"
    assert run(root)
    assert told(root) == {ID: "generation 1"}


@pytest.mark.parametrize(
    ("state", "now", "fact"),
    [
        (DONE, OLD, "generation 3"),
        (DONE, NEW, "generation 3"),
        (BEGUN, OLD, "generation 3 begun"),
        (BEGUN, NEW, "generation 3 begun"),
        (ORDERED, OLD, "generation 3 ordered, still in the boot before"),
        (ORDERED, NEW, "generation 3"),
        (ORDERED, "No such file", "unknown: no boot id: No such file"),
    ],
)
def test_how_far_it_has_come(root: Path, state: str, now: str, fact: str) -> None:
    """F-ANS-09: ordered is not done, and what is no boot id is no other boot."""
    boot(root, now)
    assert marked(root, state=state) == fact


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"generation": 1}', "x" * 9000, '{"generation": "1"}']
)
def test_a_mark_that_nobody_can_read_says_nothing_and_ends_nothing(root: Path, text: str) -> None:
    """Unknown is neither absent nor done."""
    path = root / MARK
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert told(root)[ID].startswith("unknown: ")
    with pytest.raises(Refusal, match=r"\.restart: no mark"):
        run(root)
    assert path.read_text() == text


def test_a_mark_is_read_strictly() -> None:
    sound = json.loads(text_of(Mark(1, DONE, 0, OLD, 1.0)))
    for key, value in (("generation", True), ("state", "over"), ("uptime", 1), ("more", 1)):
        with pytest.raises(ProbeError):
            restarts.mark_of(json.dumps({**sound, key: value}))


def test_older_is_what_was_started_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """RST-04: a process that a restart was to end is named as long as it is there."""
    own = restarts.started("/", os.getpid())
    assert 0 < own <= restarts.read_uptime()
    monkeypatch.setattr(restarts, "running", lambda root, uid: {os.getpid(): "python"})
    mark = Mark(1, DONE, 20000, OLD, own + 1)
    assert restarts.older_than("/", mark) == [f"process {os.getpid()} python"]
    assert restarts.older_than("/", mark._replace(uptime=own)) == []
    assert restarts.started("/", 1 << 30) == float("inf")


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        (Completed([], 0, "GPU 00000000:10:00.0 was successfully reset.", ""), "reset"),
        (
            Completed([], 3, "", "Resetting GPU 00000000:10:00.0 is not supported."),
            "not reset: nvidia-smi ended with 3: Resetting GPU 00000000:10:00.0 is not supported.",
        ),
        (ProbeError("nvidia-smi is not there"), "not reset: nvidia-smi is not there"),
    ],
    ids=["done", "not by this board", "no tool"],
)
def test_of_each_card_it_is_said_whether_it_was_reset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Completed | ProbeError, fact: str
) -> None:
    """Of that card alone, and nothing is claimed that its driver has not done."""
    asked: list[tuple[str, ...]] = []

    def call(*words: str) -> Completed:
        asked.append(words)
        if isinstance(answer, ProbeError):
            raise answer
        return answer

    monkeypatch.setattr(restart, "call", call)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert restart._reset(Tree(folder, dry=False), "GPU-a") == fact
        assert asked == [("nvidia-smi", "--gpu-reset", "-i", "GPU-a")]
        assert restart._reset(Tree(folder, dry=True), "GPU-a").startswith("not reset")
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reboot": True}, "a folder cannot be started anew"),
        ({"gpus": ["--help"]}, "no GPU"),
        ({"id": "../etc"}, "no allocation id"),
        ({"uid": 5}, "no uid of a tenant"),
    ],
)
def test_what_a_host_refuses(root: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal, match=why):
        run(root, **changes)
    assert told(root) == {}
