"""What a process has open by whatever way, seen in the kernel of this very machine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpuaas import handles, holders
from gpuaas.handles import Handles
from gpuaas.probes import ProbeError, Probes

from tests import privileges

pytestmark = privileges.needs(privileges.others, privileges.devices)

Start = Callable[[str], int]

OPENS = "fd = os.open(path, os.O_RDWR)\n"
IN_A_THREAD = """\
def work():
    libc.unshare(0x400)
    os.open(path, os.O_RDWR)
    ready()
    time.sleep(60)
threading.Thread(target=work).start()
"""
WAYS = {
    "open": OPENS + "ready()\ntime.sleep(60)",
    "by a thread alone": IN_A_THREAD + "time.sleep(60)",
    "by a thread whose first has ended": IN_A_THREAD
    + "time.sleep(0.3)\nlibc.syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)",
    "mapped": OPENS
    + "held = mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE)\nlibc.close(fd)\n"
    + "for name in os.listdir('/proc/self/fd')[3:]:\n"
    + "    int(name) > 2 and libc.close(int(name))\n"
    + "ready()\ntime.sleep(60)",
}


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """/dev/zero under a name that nobody expects."""
    path = tmp_path / "notes.txt"
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    return path


@pytest.fixture
def start(node: Path, tmp_path: Path) -> Iterator[Start]:
    begun: list[subprocess.Popen[bytes]] = []

    def started(script: str) -> int:
        told = tmp_path / "ready"
        head = (
            "import array, ctypes, mmap, os, socket, threading, time\n"
            f"path, libc = {str(node)!r}, ctypes.CDLL(None)\n"
            f"def ready(): open({str(told)!r}, 'w').close()\n"
        )
        begun.append(subprocess.Popen([sys.executable, "-c", head + script]))
        until = time.monotonic() + 20
        while not told.exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.6)
        return begun[-1].pid

    yield started
    for one in begun:
        one.kill()
        one.wait()


@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_is_held_in_any_way_is_found(start: Start, way: str) -> None:
    """F-REAL-04: neither a name nor a table of open files of its own hides one."""
    assert (1, 5) in Handles(Probes("/")).of(start(WAYS[way]))


def test_open_files_that_wait_in_a_socket_are_counted(start: Start) -> None:
    """F-REAL-04: whom they are sent to need not take them before the card is somebody else's."""
    script = (
        OPENS
        + "a, b = socket.socketpair()\n"
        + "rights = array.array('i', [fd, fd])\n"
        + "a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
        + "os.close(fd)\nready()\ntime.sleep(60)"
    )
    pid = start(script)
    look = Handles(Probes("/"))
    assert (1, 5) not in look.of(pid) and look.in_flight(pid) == 2


def test_a_process_that_has_nothing_of_the_sort_is_none(start: Start) -> None:
    """F-REAL-04: nor one that is gone."""
    pid = start("a, b = socket.socketpair()\nready()\ntime.sleep(60)")
    look = Handles(Probes("/"))
    assert (1, 5) not in look.of(pid) and look.in_flight(pid) == 0
    assert look.of(2**22 + 1) == set() and look.in_flight(2**22 + 1) == 0


def test_more_handles_than_can_be_looked_at_are_unknown(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-04: whoever has a million of them does not hold up the look."""
    monkeypatch.setattr(handles, "SECONDS", 0.0)
    with pytest.raises(ProbeError, match="more is open than can be looked at"):
        Handles(Probes("/")).of(start("ready()\ntime.sleep(60)"))


def test_what_no_file_system_tells_of_is_no_device(tmp_path: Path) -> None:
    """F-REAL-04: a program of a tenant's that serves files refuses, and costs nobody's look."""
    (tmp_path / "loop").symlink_to("loop")
    assert handles.device_of(str(tmp_path / "loop")) is None
    assert handles.device_of(str(tmp_path / "gone")) is None
    assert handles.device_of("/dev/null") == (1, 3)


def test_cards_of_which_two_name_one_node_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-04: it would be looked after the wrong one."""
    from gpuaas.cards import Inquiry
    from gpuaas.smi_log import Card

    cards = {address: Card() for address in "abc"}
    for address, minor in (("a", "1"), ("b", "01"), ("c", "2")):
        cards[address].told["minor_number"] = minor
    rows = {address: {"uuid": f"GPU-{address}"} for address in "abc"}
    monkeypatch.setattr(holders, "inquiry", lambda _: Inquiry(rows, {}, cards, [], None))
    monkeypatch.setattr(holders, "holders_by_minor", lambda _: {})
    monkeypatch.setattr(holders, "hidden", lambda _: ["process 7"])
    assert holders.read_holders(Probes("/")) == {"GPU-c": ["process 7"]}
