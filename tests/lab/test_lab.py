"""The lab itself: what it lends are real hosts, which do what hosts do, and stand-ins say so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from reconciler.operations.node.directory_host import DRIVER, LABEL
from tests.lab import host, network, server
from tests.lab.host import Host

pytestmark = pytest.mark.lab

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]

OPEN_EACH = """
import errno, sys
for path in sys.argv[1:]:
    try:
        open(path).close()
    except OSError as error:
        print(path, errno.errorcode[error.errno])
"""


@pytest.fixture(scope="module")
def three(fresh_hosts: Fresh) -> Iterator[tuple[Host, ...]]:
    with fresh_hosts(3) as hosts:
        yield hosts


@pytest.fixture
def one(three: tuple[Host, ...]) -> Iterator[Host]:
    """Up and reachable, whatever the test before it did."""
    yield three[0]
    if three[0].is_on():
        three[0].heal()
    three[0].up(owner=os.getpid())
    three[0].wait()


def test_hosts_are_whole_machines(three: tuple[Host, ...]) -> None:
    """systemd, D-Bus and logind run, sudo works, and each has an identity of its own."""
    for each in three:
        assert each.run("systemctl", "is-system-running").stdout.strip() == "running"
        assert each.run("hostname").stdout.strip() == each.name
        assert each.run("sudo", "-n", "id", "-u", login="gpuaas").stdout.strip() == "0"
        session = each.run("loginctl", "show-session", "-P", "Class", '"$XDG_SESSION_ID"')
        assert session.stdout.strip() in {"user", "manager"}
        assert each.run("cat", "/etc/machine-id").stdout.strip() == each.machine_id()
    assert len({each.machine_id() for each in three}) == 3
    assert len({key for each in three for key in each.host_keys()}) == 6
    assert len({each.boot_id() for each in three}) == 3


def test_cgroups_are_pure_v2(three: tuple[Host, ...]) -> None:
    kind = three[0].run("stat", "--file-system", "--format=%T", "/sys/fs/cgroup").stdout
    assert kind.strip() == "cgroup2fs"


def test_hosts_reach_each_other_and_nobody_else(three: tuple[Host, ...]) -> None:
    first, second, _ = three
    assert first.run("ping", "-c1", "-W1", second.address).returncode == 0
    assert first.run("ip", "route", "show", "default").stdout == ""
    assert first.run("ping", "-c1", "-W1", "192.0.2.1", check=False).returncode != 0


def test_a_reboot_is_another_boot_of_the_same_machine(one: Host) -> None:
    boot, machine, keys = one.boot_id(), one.machine_id(), one.host_keys()
    one.run("touch", "/var/kept")
    one.reboot()
    assert one.boot_id() != boot
    assert (one.machine_id(), one.host_keys()) == (machine, keys)
    assert one.run("test", "-e", "/var/kept", check=False).returncode == 0


def test_a_cut_host_is_silent_and_goes_on(one: Host) -> None:
    boot = one.boot_id()
    one.cut()
    assert one.run("true", check=False).returncode == 255
    one.heal()
    one.wait()
    assert one.boot_id() == boot


def test_a_power_cut_leaves_what_was_on_the_disk(one: Host) -> None:
    boot, machine = one.boot_id(), one.machine_id()
    one.run("echo written > /var/kept; nohup sleep 600 >/dev/null 2>&1 &")
    one.kill()
    assert not one.is_on()
    assert one.run("true", check=False).returncode == 255
    one.up(owner=os.getpid())
    one.wait()
    assert one.run("cat", "/var/kept").stdout == "written\n"
    assert one.run("pgrep", "-x", "sleep", check=False).stdout == ""
    assert one.machine_id() == machine
    assert one.boot_id() != boot


def test_the_power_button_is_an_orderly_end(one: Host) -> None:
    one.run("systemctl", "show", "--property=Version")
    one.down()
    assert not one.is_on()


def test_a_wiped_host_is_another_machine_with_the_same_cards(one: Host) -> None:
    machine, keys = one.machine_id(), one.host_keys()
    cards = one.run("nvidia-smi", "-L").stdout
    one.run("touch", "/var/gone")
    one.wipe()
    one.up(owner=os.getpid())
    one.wait()
    assert one.machine_id() not in ("", machine)
    assert not set(one.host_keys()) & set(keys)
    assert one.run("test", "-e", "/var/gone", check=False).returncode == 1
    assert one.run("nvidia-smi", "-L").stdout == cards


def test_the_device_filter_is_enforced(three: tuple[Host, ...]) -> None:
    """No driver answers (ENXIO), and what a unit is not given it may not even ask for (EPERM)."""
    filtered = ("systemd-run", "--quiet", "--wait", "--pipe", "--property=DevicePolicy=closed")
    given = "--property=DeviceAllow='/dev/nvidia3 rw'"
    opening = ("python3", "-", "/dev/nvidia3", "/dev/nvidia4", "/dev/nvidia-uvm", "/dev/null")
    free = three[0].run(*opening, given=OPEN_EACH).stdout.split()[1::2]
    assert free == ["ENXIO", "ENXIO", "ENXIO"]
    bound = three[0].run(*filtered, given, *opening, given=OPEN_EACH).stdout.split()[1::2]
    assert bound == ["ENXIO", "EPERM", "EPERM"]


def test_cards_are_labelled_and_differ_from_host_to_host(three: tuple[Host, ...]) -> None:
    seen: set[str] = set()
    for each in three:
        query = "--query-gpu=uuid,driver_version"
        rows = each.run("nvidia-smi", query, "--format=csv,noheader").stdout.splitlines()
        uuids = [row.split(", ")[0] for row in rows]
        assert uuids == [server.gpu_uuid(each.name, index) for index in range(8)]
        assert {row.split(", ")[1] for row in rows} == {DRIVER}
        seen.update(uuids)
    assert len(seen) == 24
    assert three[0].run("sed", "-n", "2p", "/usr/bin/nvidia-smi").stdout.startswith(LABEL)


def test_a_card_has_the_device_node_of_its_minor_and_lies_beside_drive_and_adapter(
    three: tuple[Host, ...],
) -> None:
    described = three[0].run("nvidia-smi", "-q", "-x").stdout
    assert all(
        f"<minor_number>{server.minor(index)}</minor_number>" in described for index in (0, 7)
    )
    for minor in range(8):
        node = three[0].run("stat", "--format=%t:%T", f"/dev/nvidia{minor}").stdout.strip()
        assert node == f"c3:{minor:x}"
    tree = f"/{server.TREE}/sys/bus/pci/devices"
    card, adapter, drive = (
        three[0].run("readlink", "--canonicalize-existing", f"{tree}/0000:{bus}:00.0").stdout
        for bus in ("1b", "18", "19")
    )
    switches = {"/".join(path.split("/")[:-2]) for path in (card, adapter, drive)}
    assert len(switches) == 1, switches
    link = f"{tree}/0000:19:00.0/nvme/nvme0/nvme0n1/size"
    assert three[0].run("cat", link).stdout.strip() == str(server.DATA_SECTORS)


def test_hosts_end_with_the_process_that_borrowed_them(fresh_hosts: Fresh) -> None:
    """A test run that is killed leaves nothing behind."""
    borrower = subprocess.Popen(
        [sys.executable, "-c", BORROW], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert borrower.stdout is not None
    name = borrower.stdout.readline().strip()
    borrowed = next(each for each in host.hosts() if each.name == name)
    assert borrowed.is_on()
    borrower.kill()
    borrower.wait()
    until = time.monotonic() + 10
    while borrowed.folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not borrowed.folder.exists()
    assert network.address(borrowed.index) == borrowed.address


def test_a_host_whose_supervisor_was_killed_can_be_switched_off_and_on(one: Host) -> None:
    boot = one.boot_id()
    os.kill(int((one.folder / "pid").read_text().split()[0]), signal.SIGKILL)
    while one.is_on():
        time.sleep(0.02)
    one.up(owner=os.getpid())
    one.wait()
    assert one.boot_id() != boot


BORROW = """
import time
from tests.lab import borrowing
with borrowing.fresh(1) as (one,):
    print(one.name, flush=True)
    time.sleep(600)
"""
