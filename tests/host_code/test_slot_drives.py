"""What a host tells of the drives of its slots, and of units that start what comes back."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from gpuaas import processes, residue, slot_drives
from gpuaas.probes import Probes

ID = "nvme-eui.0025385b21401a00"


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probes:
    """One drive with a partition, and a table of mounts of its own."""
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "dev/disk/by-id" / ID).symlink_to("../../nvme0n1")
    (tmp_path / "sys/block/nvme0n1/nvme0n1p1/holders").mkdir(parents=True)
    (tmp_path / "sys/block/nvme0n1/holders").mkdir()
    (tmp_path / "mounts").write_text("/dev/sda1 / ext4 rw 0 0\n")
    monkeypatch.setattr(slot_drives, "MOUNTS", str(tmp_path / "mounts"))
    return Probes(str(tmp_path))


def test_a_drive_that_nobody_uses_is_told_so(probes: Probes) -> None:
    assert slot_drives.read_drive_users(probes) == {ID: ""}


@pytest.mark.parametrize("device", ["nvme0n1", "nvme0n1p1"])
def test_a_mounted_drive_or_part_of_one_is_in_use(probes: Probes, device: str) -> None:
    """F-PLC-05: tenants are given no drive, so whoever uses one has put data there."""
    Path(probes.at("mounts")).write_text(f"/dev/{device} /mnt/data xfs rw 0 0\n")
    assert slot_drives.read_drive_users(probes) == {ID: "mounted at /mnt/data"}


@pytest.mark.parametrize("part", ["holders", "nvme0n1p1/holders"])
def test_a_drive_that_is_part_of_something_is_in_use(probes: Probes, part: str) -> None:
    Path(probes.at("sys/block/nvme0n1", part, "dm-0")).mkdir()
    assert slot_drives.read_drive_users(probes) == {ID: "part of dm-0"}


MANAGER = "/user.slice/user-20000.slice/user@20000.service"


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("/system.slice/back.service", "back.service"),
        ("/system.slice/system-x.slice/x@1.service/inner", "x@1.service"),
        ("/user.slice/user-20000.slice/session-4.scope", ""),
        ("/user.slice/user-20000.slice/user@20000.service/init.scope", ""),
        (f"{MANAGER}/app.slice/ssh.service", "user@20000.service (its own ssh.service)"),
        (f"{MANAGER}/app.slice/ssh.service/a.scope", "user@20000.service (its own ssh.service)"),
        (f"{MANAGER}/app.slice/run-4.scope", ""),
        ("/user.slice/user-20000.slice/session-4.scope/ssh.service", ""),
        ("/system.slice/docker-ab.scope/system.slice/ssh.service", "docker-ab.scope"),
        ("/system.slice/watch.service/app.slice/ssh.service", "watch.service"),
        ("/", ""),
    ],
)
def test_a_process_is_named_with_the_unit_that_starts_it(
    tmp_path: Path, cgroup: str, unit: str
) -> None:
    """REL-04: whoever has to end it must know what brings it back."""
    (tmp_path / "proc/812").mkdir(parents=True)
    (tmp_path / "proc/812/cgroup").write_text(f"0::{cgroup}\n")
    assert processes.unit_of(str(tmp_path), 812) == unit
    words = f"812 sleep of {unit}" if unit else "812 sleep"
    assert processes.told(str(tmp_path), 812, "sleep") == words
    assert processes.unit_of(str(tmp_path), 813) == ""


def test_whose_a_process_is_is_known_where_its_group_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel names no group beyond 4,096 characters; whose it is, its uids tell."""
    (tmp_path / "proc/812").mkdir(parents=True)
    ids = "\t".join(["20001"] * 4)
    (tmp_path / "proc/812/status").write_text(f"Name:\tsleep\nUid:\t{ids}\n")

    as_it_is = open

    def too_long(path: str, *args: Any, **kwargs: Any) -> Any:
        if path.endswith("cgroup"):
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        return as_it_is(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", too_long)
    assert processes.running(str(tmp_path), 20001) == {812: "sleep"}
    assert processes.running(str(tmp_path), 20002) == {}
    assert processes.unit_of(str(tmp_path), 812) == ""


def test_no_sort_of_thing_crowds_out_another() -> None:
    """F-PLC-05: a thousand files hide neither a process nor a queue."""
    files = [f"file /opt/{n}" for n in range(1000)]
    told = residue.by_sort(["process 1 sh", *files, "mqueue /x"])
    assert {one.split()[0] for one in told} == {"process", "file", "and", "mqueue"}
    assert len(told) < 100
