"""One run at a time on a host, and none that places on evidence of another boot."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuaas import converge as code
from gpuaas import settle, turns
from gpuaas.machine import read_boot_id
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import Probes

from tests.hosts.hosting import NO_KEYS, provide_item
from tests.hosts.test_converge import below, do, work

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="the lock of a whole host is root's")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.3)


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[int]:
    """Somebody is at work on this folder."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    yield folder
    os.close(folder)


@pytest.mark.usefixtures("impatient", "taken")
def test_a_host_that_is_at_work_is_not_touched(tmp_path: Path) -> None:
    """F-ANS-06: what an earlier run was given, it may still be doing after that run was killed."""
    with pytest.raises(Refusal) as refused:
        do(tmp_path, work("allocation.provide", provide_item()))
    assert refused.value.code == "host_busy"
    assert list(tmp_path.iterdir()) == []
    assert do(tmp_path, work("allocation.provide", provide_item()), dry=True)[0]["ok"]


def test_who_waits_has_his_turn(tmp_path: Path, taken: int) -> None:
    threading.Timer(0.3, fcntl.flock, (taken, fcntl.LOCK_UN)).start()
    assert do(tmp_path, work("allocation.provide", provide_item()))[0]["ok"]


@as_root
def test_tenants_cannot_take_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may open a lock may hold it: those of a whole host are root's alone, and stay so."""
    for module, name in ((turns, "one"), (settle, "two")):
        lock = tmp_path / name
        lock.touch(0o644)
        monkeypatch.setattr(module, "LOCK", str(lock))
    with turns.turn(Tree(os.open("/", os.O_RDONLY), dry=False)), settle.alone():
        pass
    assert {stat.S_IMODE(lock.stat().st_mode) for lock in tmp_path.iterdir()} == {0o600}


def test_nobody_is_placed_on_evidence_of_another_boot(tmp_path: Path) -> None:
    """Rule 7: what is taken away is taken away, and who would come is told to wait for a look."""
    entries = [
        work("access.sync", NO_KEYS, ref="allocation/vision/goes"),
        work("allocation.provide", provide_item()),
        work("access.sync", NO_KEYS),
    ]
    goes, comes, after = code.converge(str(tmp_path), "", entries, boot_id="another")
    assert goes["ok"]
    assert comes["problem"]["code"] == "host_rebooted"
    assert "not tried" in after["problem"]["message"]
    assert not below(tmp_path, "/home").exists()
    now = read_boot_id(Probes(str(tmp_path)))
    assert all(one["ok"] for one in code.converge(str(tmp_path), "", entries, boot_id=now))
