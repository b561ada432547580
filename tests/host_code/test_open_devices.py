"""What a process has open by whatever way, seen in the kernel of this very machine."""

from __future__ import annotations

import ctypes
import os
import re
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpuaas import device_holders, open_devices
from gpuaas.open_devices import Handles
from gpuaas.probes import Probes

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


def state(pid: int) -> str:
    """Of the first thread of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


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
        rests = "Z" if "libc.syscall(" in script else "S"
        while time.monotonic() < until and not (told.exists() and state(begun[-1].pid) == rests):
            time.sleep(0.02)
        return begun[-1].pid

    yield started
    for one in begun:
        one.kill()
        one.wait()


@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_is_held_in_any_way_is_found(start: Start, way: str) -> None:
    """F-REAL-04: neither a name nor a table of open files of its own hides one."""
    assert (1, 5) in Handles(Probes("/")).look(start(WAYS[way]))[0]


SENT = """\
a, b = socket.socketpair()
rights = array.array('i', [fd, fd])
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
"""
RING = """\
ring = libc.syscall(425, 4, ctypes.create_string_buffer(120))
assert ring >= 0
libc.syscall(427, ring, 2, (ctypes.c_int * 2)(fd, fd), 2)
"""
UNSEEN = {
    "sent and not taken": (SENT, "2 open files wait in its sockets"),
    "sent to whoever has not been let in": (
        "s, c = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)\n"
        "s.bind('\\0gpuaas-test-handles'); s.listen(); c.connect('\\0gpuaas-test-handles')\n"
        + SENT.split("\n", 1)[1].replace("a.", "c."),
        "2 open files wait in its sockets",
    ),
    "registered": (RING, "2 files are registered with its io_uring"),
    "registered with what is only mapped": (
        RING + "held = mmap.mmap(ring, 4096)\n"
        "for path in map('/proc/self/fd/{}'.format, os.listdir('/proc/self/fd')):\n"
        " if os.path.lexists(path) and 'io_uring' in os.readlink(path):\n"
        "  os.close(int(path[14:]))",
        "it has an io_uring that no table lists",
    ),
}


@pytest.mark.parametrize("way", UNSEEN)
def test_open_files_that_no_table_lists_are_told_of(start: Start, way: str) -> None:
    """F-REAL-04: whoever has them need not take them before the card is somebody else's."""
    if "io_uring" in UNSEEN[way][1]:
        privileges.have(rings)
    script, why = UNSEEN[way]
    pid = start(f"{OPENS}{script}\nos.close(fd)\nready()\ntime.sleep(60)")
    look = Handles(Probes("/"))
    devices, told = look.look(pid)
    assert (1, 5) not in devices and told == [why]


def rings() -> str:
    made = ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120))
    if made < 0:
        return "this machine has no io_uring"
    os.close(made)
    return ""


def test_a_handle_that_is_only_a_name_holds_no_device(start: Start) -> None:
    """With O_PATH no device is asked whether it may be opened, and nothing is done with it."""
    pid = start("fd = os.open(path, os.O_PATH)\nready()\ntime.sleep(60)")
    assert (1, 5) not in Handles(Probes("/")).look(pid)[0]


def test_where_the_kernel_does_not_count_what_waits_sockets_are_not_told_of(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = start("a, b = socket.socketpair()\nready()\ntime.sleep(60)")
    monkeypatch.setattr(open_devices, "IN_FLIGHT", re.compile("no such line"))
    open_devices._sockets_tell.cache_clear()
    try:
        _, (why,) = Handles(Probes("/")).look(pid)
    finally:
        open_devices._sockets_tell.cache_clear()
    assert why == "this kernel does not tell what waits in its sockets"


def test_an_io_uring_that_the_kernel_is_busy_with_is_not_told_of(tmp_path: Path) -> None:
    """Its files are left out then, which is not to have none."""
    for name, text in (("fd", None), ("fdinfo", "pos:\t0\nflags:\t02000002\n")):
        (tmp_path / "proc/7" / name).mkdir(parents=True)
        place = tmp_path / "proc/7" / name / "3"
        place.symlink_to(open_devices.RING) if text is None else place.write_text(text)
    assert Handles(Probes(str(tmp_path))).look(7) == (set(), ["its io_uring is not told of"])


def test_a_process_that_has_nothing_of_the_sort_is_none(start: Start) -> None:
    """F-REAL-04: nor one that is gone."""
    pid = start("a, b = socket.socketpair(); socket.socket()\nready()\ntime.sleep(60)")
    look = Handles(Probes("/"))
    devices, told = look.look(pid)
    assert (1, 5) not in devices and told == []
    assert look.look(2**22 + 1) == (set(), [])


def test_more_handles_than_can_be_looked_at_are_unknown(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-04: whoever has a million of them does not hold up the look."""
    monkeypatch.setattr(open_devices, "SECONDS", 0.0)
    with pytest.raises(open_devices.TooMany):
        Handles(Probes("/")).look(start("ready()\ntime.sleep(60)"))


def test_what_no_file_system_tells_of_is_no_device(tmp_path: Path) -> None:
    """F-REAL-04: a program of a tenant's that serves files refuses, and costs nobody's look."""
    (tmp_path / "loop").symlink_to("loop")
    assert open_devices.device_of(str(tmp_path / "loop")) is None
    assert open_devices.device_of(str(tmp_path / "gone")) is None
    assert open_devices.device_of("/dev/null") == (1, 3)


def test_what_is_mapped_costs_no_more_by_a_long_name(tmp_path: Path) -> None:
    """Whoever maps a file many times says how long each line about it is."""
    of_it = tmp_path / "proc/7"
    (of_it / "map_files").mkdir(parents=True)
    (of_it / "map_files/1000-2000").symlink_to("/dev/null")
    rows = (f"{at:x}000-{at + 1:x}000 r--s 0 08:01 {at} /{'x' * 4000}\n" for at in range(1, 3000))
    (of_it / "maps").write_text(
        "".join(rows) + f"ffff000-ffff1000 rw-s 0 00:0f 77 {open_devices.RING}\n"
    )
    tracemalloc.start()
    try:
        devices, told = Handles(Probes(str(tmp_path))).look(7)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert devices == {(1, 3)} and told == ["it has an io_uring that no table lists"]
    assert most < 2**20, most


def test_cards_of_which_two_name_one_node_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-04: it would be looked after the wrong one."""
    from gpuaas.cards import Inquiry
    from gpuaas.smi_log import Card

    cards = {address: Card() for address in "abc"}
    for address, minor in (("a", "1"), ("b", "01"), ("c", "2")):
        cards[address].told["minor_number"] = minor
    rows = {address: {"uuid": f"GPU-{address}"} for address in "abc"}
    monkeypatch.setattr(device_holders, "inquiry", lambda _: Inquiry(rows, {}, cards, [], None))
    monkeypatch.setattr(device_holders, "holders_by_minor", lambda _: {})
    monkeypatch.setattr(device_holders, "hidden", lambda _: ["process 7"])
    assert device_holders.read_holders(Probes("/")) == {"GPU-c": ["process 7"]}
