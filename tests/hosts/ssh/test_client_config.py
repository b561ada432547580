"""What a person's ssh configuration says above our blocks, and so instead of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reconciler.hosts.ssh.client_config import earlier

OURS = "Host train.vision\n    HostName 10.0.0.7\n    StrictHostKeyChecking yes\n"


@pytest.mark.parametrize(
    ("above", "options"),
    [
        ("Host *\n  StrictHostKeyChecking no\n  ForwardAgent no\n", ["StrictHostKeyChecking"]),
        ("host *\n\tuser=me\n", ["user"]),
        ("User me\nHost other\n  Port 7\n", ["User"]),
        ("Host *.vision !train.vision\n  User me\n", []),
        ("Host *.vision\n  UserKnownHostsFile /dev/null\n", ["UserKnownHostsFile"]),
        ('Match host "*.vision"\n  ProxyJump x\n', ["ProxyJump"]),
        ("Host *\n  # User me\n  ServerAliveInterval 5\n", []),
        ("Host trainxvision\n  User me\n", []),
        ("Include ~/.ssh/other\n", []),
        ("", []),
    ],
)
def test_what_stands_above_is_told(above: str, options: list[str]) -> None:
    """F-REAL-22: for blocks that are there, and for those that would come last."""
    for text in (f"{above}{OURS}Host *\n  Port 1\n", above):
        assert [one.option for one in earlier(text, ["train.vision"])] == options


def test_below_our_own_block_anything_may_be_said() -> None:
    """F-REAL-22."""
    assert not earlier(f"{OURS}\nHost *\n  StrictHostKeyChecking no\n", ["train.vision"])


def test_ssh_itself_takes_the_first(tmp_path: Path) -> None:
    """F-REAL-22: as OpenSSH judges it: appended it loses, included at the top it holds."""
    star = "Host *\n  StrictHostKeyChecking no\n"
    own, last, first = (tmp_path / name for name in ("gpuaas", "last", "first"))
    own.write_text(OURS)
    last.write_text(star + OURS)
    first.write_text(f"Include {own}\n{star}")
    for config, holds in ((last, False), (first, True)):
        told = subprocess.run(
            ["ssh", "-F", config, "-G", "train.vision"], capture_output=True, text=True, check=True
        )
        assert ("stricthostkeychecking true" in told.stdout.lower()) is holds
