"""Killed while a host is asked who it is: nothing is written down of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.crash import end_of, kill
from tests.harness.sshd import needs_sshd, sshd
from tests.harness.yard import Yard, laid

pytestmark = [pytest.mark.walk, needs_sshd]


@pytest.mark.parametrize("stop", ["scan.before", "scan.after"])
def test_a_scan_leaves_nothing(tmp_path: Path, stop: str) -> None:
    """F-STA-07: no spec, no pin, no process; asked again, the host shows its key."""
    yard = laid(tmp_path / "fleet", {"gpu01": 2})
    with sshd(tmp_path / "sshd") as running:
        words = ("node", "discover", "127.0.0.1", "--port", str(running.port), "--name", "gpu09")
        written = (*words, "--write", "specs/gpu09.yaml")
        before = files(yard)
        end_of(kill(yard, written, stop), yard)
        assert files(yard) == before
        again = yard.gpuaas(*words)
        assert again.problems == ["host_key_unseen"]
        public = running.folder / "host_key.pub"
        shown = subprocess.check_output(["ssh-keygen", "-lf", public], text=True)
        assert shown.split()[1] in again.messages + again.told


def files(yard: Yard) -> list[str]:
    kept = (path for path in yard.folder.rglob("*") if "cache.db" not in path.name)
    return sorted(str(path) for path in kept if ".git/" not in str(path))
