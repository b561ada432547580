"""Disks of volumes, by the host's own programs and on real loop devices."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gpuaas import disks, probes
from gpuaas.disks import check_fits, put_disk

from tests import privileges
from tests.harness.directory_host import tree as all_of
from tests.host_code.volume_host import opened, refused

DISK = "/disk.img"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gibibyte of 320 MiB, of which xfs still makes something."""
    monkeypatch.setattr(disks, "GIB", 320 * 1024**2)


def put(root: Path, filesystem: str = "ext4", size: int = 1, *, make: bool = True) -> bool:
    with opened(root) as tree:
        put_disk(tree, DISK, filesystem, size, make=make)
        return tree.changed


@contextmanager
def mounted(root: Path) -> Iterator[Path]:
    point = root / "point"
    point.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", root / "disk.img", point], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


def may_resize() -> bool:
    """The kernel lets ext4 grow only for who may go beyond limits: not every root of a box may."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> 24 & 1)


@pytest.mark.walk
@privileges.needs(privileges.loops)
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_a_disk_is_made_once_and_grows_while_in_use(tmp_path: Path, filesystem: str) -> None:
    """Its room is its own from the first moment, and its size a limit; it never gets smaller."""
    assert put(tmp_path, filesystem) is True
    image = tmp_path / "disk.img"
    assert image.stat().st_blocks * 512 >= image.stat().st_size == disks.GIB
    with mounted(tmp_path) as point:
        (point / "log").write_text("one")
        with pytest.raises(OSError, match="No space") as full, open(point / "big", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, disks.GIB)
        assert full.value.errno == errno.ENOSPC
        assert put(tmp_path, filesystem, make=True) is False
        with opened(tmp_path) as tree:
            check_fits(tree, DISK, str(point), filesystem)
            assert not tree.changed
        before = os.statvfs(point).f_blocks
        assert put(tmp_path, filesystem, 2, make=False) is True
        with opened(tmp_path) as tree:
            code, said = refused(check_fits, tree, DISK, str(point), filesystem)
            assert tree.changed
        if filesystem == "xfs" or may_resize():
            assert not code and os.statvfs(point).f_blocks > 1.9 * before
        else:
            assert code == "verb_failed" and "Permission denied" in said
        assert put(tmp_path, filesystem, 1, make=False) is False
        assert (point / "log").read_text() == "one"
    with mounted(tmp_path) as point:
        assert (point / "log").read_text() == "one"


BLKID = {
    "missing": None,
    "fails": "exit 4",
    "tells of nothing and succeeds": "exit 0",
    "finds something": "echo TYPE=ext4",
    "cannot decide": "echo 'ambivalent result' >&2; exit 8",
    "says something beside": "echo odd; exit 2",
    "hangs": "sleep 60",
}


@pytest.mark.parametrize("blkid", BLKID)
def test_a_probe_that_does_not_answer_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blkid: str
) -> None:
    """F-STO-01: formatted is what was looked at and found blank, and then nothing is left of it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mkfs.ext4").write_text(f"#!/bin/sh\necho > {tmp_path}/formatted\n")
    if said := BLKID[blkid]:
        (programs / "blkid").write_text(f"#!/bin/sh\n{said}\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setattr(probes, "SAFE_PATH", f"{programs}:/none")
    monkeypatch.setattr(probes, "MAX_SECONDS", 0.3)
    if said and "sleep" in said:
        (programs / "sleep").symlink_to("/bin/sleep")
    monkeypatch.setattr(disks, "GIB", 1024**2)
    (tmp_path / "root").mkdir()
    assert refused(put, tmp_path / "root")[0] == "volume_not_blank"
    assert not (tmp_path / "formatted").exists() and not all_of(tmp_path / "root")


@pytest.mark.parametrize("at", [0, 1024, 1024**2 - 512])
def test_what_is_written_on_it_is_seen_whatever_the_probe_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """F-STO-01: blkid ends with 2 where it finds nothing, and also where it could not read."""
    said = subprocess.CompletedProcess([], 2, "", "")
    monkeypatch.setattr(disks, "call", lambda *_: said)
    monkeypatch.setattr(disks, "must", lambda *_: pytest.fail("formatted"))
    disk = tmp_path / "disk"
    with open(disk, "wb") as file:
        file.truncate(1024**2)
        file.seek(at)
        file.write(b"x")
    file_ = os.open(disk, os.O_RDWR)
    try:
        assert refused(disks._format, file_, "disk", "ext4")[0] == "volume_not_blank"
    finally:
        os.close(file_)


def test_what_has_the_name_of_a_disk_is_never_formatted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-01: not even where it may be made, and does not look like a file system."""
    monkeypatch.setattr(disks, "must", lambda *_: pytest.fail("formatted"))
    monkeypatch.setattr(disks, "GIB", 4096)
    (tmp_path / "disk.img").write_bytes(bytes(4096))
    assert put(tmp_path) is False
    (tmp_path / "disk.img").unlink()
    assert refused(put, tmp_path, make=False)[0] == "volume_missing"
    (tmp_path / "disk.img").mkdir()
    assert refused(put, tmp_path)[0] == "volume_not_blank"


def test_a_disk_for_which_there_is_no_room_takes_none(tmp_path: Path) -> None:
    """Neither a new one nor a larger one, and what there was stays as large as it was."""
    code, said = refused(put, tmp_path, size=10**9)
    assert code == "volume_without_room" and DISK in said and not all_of(tmp_path)
    (tmp_path / "disk.img").write_bytes(b"old")
    assert refused(put, tmp_path, size=10**9)[0] == "volume_without_room"
    assert (tmp_path / "disk.img").read_bytes() == b"old"


def test_room_that_goes_meanwhile_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, at: int, size: int) -> None:
        os.truncate(file, 8192)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert refused(put, tmp_path)[0] == "volume_without_room" and not all_of(tmp_path)
    (tmp_path / "disk.img").write_bytes(b"old")
    assert refused(put, tmp_path)[0] == "volume_without_room"
    assert (tmp_path / "disk.img").read_bytes() == b"old"


def test_what_a_killed_making_left_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its first name nobody has ever had it."""
    monkeypatch.setattr(disks, "must", lambda *_: "")
    monkeypatch.setattr(disks, "GIB", 1024**2)
    (tmp_path / "disk.img.gpuaas-new").write_text("half")
    assert put(tmp_path) is True
    assert [path.name for path in tmp_path.iterdir()] == ["disk.img"]
