"""What the kernel keeps for a uid beyond its last process, in the kernel of this very machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gpuaas import keyrings
from gpuaas.paths import Tree
from gpuaas.probes import ProbeError, Probes
from gpuaas.residue import keys

from tests import privileges

UID, INSIDE = 31_998, (31_998 << 16) + 7
ADD = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
add, ctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
os.setgroups([])
uid = int(sys.argv[1])
os.setresuid(uid, uid, uid)
print(libc.syscall(add, b"user", b"secret", b"word", 4, ctypes.c_long(-4)))
key = libc.syscall(add, b"user", b"open", b"word", 4, ctypes.c_long(-5))
libc.syscall(ctl, 5, ctypes.c_long(key), ctypes.c_long(0x3F3F3F3F))
libc.syscall(add, b"user", b"x\\n1 2", b"word", 4, ctypes.c_long(-4))
libc.syscall(ctl, 22, ctypes.c_long(-1), ctypes.c_long(-4))
"""


def adding() -> str:
    told = subprocess.run(
        ["/usr/bin/python3", "-c", ADD, "0"], capture_output=True, text=True, check=False
    )
    return "" if told.stdout.strip().isdigit() else "keys may not be added to the kernel's keyrings"


def add(uid: int) -> None:
    subprocess.run(["/usr/bin/python3", "-c", ADD, str(uid)], check=True, capture_output=True)


def tree(dry: bool = False) -> Tree:
    return Tree(os.open("/", os.O_RDONLY), dry=dry)


@privileges.needs(privileges.giving_away, adding)
@pytest.mark.parametrize("uid", [UID, INSIDE])
def test_keys_of_a_uid_are_found_and_done_away_with(uid: int) -> None:
    """ACC-11: those of its keyring, of its sessions' and of its persistent one, open or not."""
    before = dict(keyrings.kept_keys("/"))
    add(uid)
    try:
        found = [what for owner, what in keys(Probes("/")) if owner == UID]
        assert len(found) == 1 and found[0].startswith("key ")
        assert ("for uid" in found[0]) == (uid != UID)
        keyrings.remove_all(look := tree(dry=True), UID)
        assert look.changed and uid in dict(keyrings.kept_keys("/"))
    finally:
        keyrings.remove_all(done := tree(), UID)
    assert done.changed
    after = dict(keyrings.kept_keys("/"))
    assert uid not in after
    assert after.keys() - {0} == before.keys() - {0, uid}, "and nothing of anybody else"
    keyrings.remove_all(again := tree(), UID)
    assert not again.changed


def test_as_the_kernel_tells(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/key-users").write_text(
        "    0:    10 9/9 3/1000000 80/25000000\n20001:     1 0/0 0/200 0/20000\n"
        f"20002:     5 3/3 2/200 26/20000\n{20002 << 16}:     5 1/1 2/200 26/20000\n"
    )
    probes = Probes(str(tmp_path))
    assert list(keys(probes)) == [
        (0, "key 9 kept by the kernel"),
        (20002, "key 3 kept by the kernel"),
        (20002, f"key 1 kept by the kernel for uid {20002 << 16}"),
    ]
    (tmp_path / "run/systemd").mkdir(parents=True)
    (tmp_path / "run/systemd/container").write_text("systemd-nspawn")
    assert list(keys(probes)) == [], "whose they are nobody can say there"


def test_a_kernel_without_keyrings_keeps_none_and_one_that_is_silent_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert list(keyrings.kept_keys(str(tmp_path))) == []

    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", absent)
    monkeypatch.setattr(keyrings, "_ask", lambda *_: -38)
    assert list(keyrings.kept_keys("/")) == []
    monkeypatch.setattr(keyrings, "_ask", lambda *_: -22)
    with pytest.raises(ProbeError, match="does not tell"):
        list(keyrings.kept_keys("/"))
