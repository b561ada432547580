"""Hosts that nobody has described yet: the keys they show, and what they are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.hosts.ssh.discover import discover, scan
from reconciler.model.problem import ProblemError
from tests.harness.directory_host import options
from tests.harness.sshd import MACHINE_ID, free_port, needs_sshd, sshd

AT = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
GOOD = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICGTOlRUwaDq+FdLAFLwgIUBSEeAHTydCJP5usGjjrwN"
LYING = GOOD.replace("ssh-ed25519", "ssh-rsa")
SHOWN = f"""
# 10.0.0.1:22 SSH-2.0-OpenSSH_9.2
10.0.0.1 {GOOD}
10.0.0.1 {GOOD}
10.0.0.1 {LYING}
10.0.0.1 {GOOD} and more
10.0.0.1 ssh-dss AAAAB3NzaC1kc3M=
10.0.0.1 ssh-ed25519 $(reboot)
"""


@pytest.mark.walk
@needs_sshd
def test_what_a_real_host_shows_and_tells(tmp_path: Path) -> None:
    """INV-01: keys first, to be pinned by a person; by these alone the rest is then asked."""
    with sshd(tmp_path / "sshd") as server:
        assert scan("127.0.0.1", server.port) == (server.host_key,)
        one = server.host(tmp_path / "root", isolation="account", machine_id="")
        (tmp_path / "root/etc/machine-id").write_text(MACHINE_ID)
        found = discover(one, options(tmp_path), at=AT)
        assert found.facts is not None, found.message
        assert found.facts.machine_id == MACHINE_ID
        assert found.facts.topology is not None
        discover(one, options(tmp_path), at=AT)
        assert server.log.count("Accepted publickey") == 2, "each by a connection of its own"


def test_nobody_there_is_said() -> None:
    with pytest.raises(ProblemError, match="shows no host key") as raised:
        scan("127.0.0.1", free_port())
    assert raised.value.problems[0].code == "host_unreachable"


@pytest.mark.parametrize("address", ["-oProxyCommand=x", "a b", "a,b", "", "a\n", "$(x)"])
def test_an_address_is_no_option_and_no_list(address: str) -> None:
    with pytest.raises(ProblemError, match="is no address"):
        scan(address, 22)


def test_only_a_key_that_a_spec_may_hold_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a network answers: other types, a type unlike its blob and trailing words go."""
    fake = tmp_path / "ssh-keyscan"
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{SHOWN}END\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert scan("10.0.0.1", 22) == (GOOD,)
