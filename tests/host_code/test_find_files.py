"""Files are looked for among people who change them, and who have more than can be looked at."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from gpuaas import file_search, find_files, residue
from gpuaas.find_files import Complaints, any_of, owned_below
from gpuaas.mounts import Mount
from gpuaas.probes import ProbeError, Probes

from tests import privileges

UID = 31_990
CHURN = """
import os, sys
os.chdir(sys.argv[1])
while True:
    for n in range(30):
        os.makedirs(f"d{n}/e/f", exist_ok=True)
    for n in range(30):
        os.rmdir(f"d{n}/e/f"); os.rmdir(f"d{n}/e"); os.rmdir(f"d{n}")
        if n % 3 == 0:
            open(f"d{n}", "w").close(); os.unlink(f"d{n}")
        if n % 3 == 1:
            os.symlink("/etc", f"d{n}"); os.unlink(f"d{n}")
"""


@pytest.fixture
def churned(tmp_path: Path) -> Iterator[Path]:
    """A folder in which somebody makes and removes folders, files and links without end."""
    (tmp_path / "stays").touch()
    with subprocess.Popen([sys.executable, "-c", CHURN, tmp_path]) as busy:
        yield tmp_path
        busy.kill()


@privileges.needs(privileges.giving_away)
def test_what_comes_and_goes_spoils_no_look(churned: Path) -> None:
    """F-PLC-04: and what stays is found each time. One in three looks failed so."""
    os.chown(churned / "stays", UID, UID)
    for _ in range(60):
        found = list(owned_below(str(churned), any_of([UID]), (), time.monotonic() + 10))
        assert found == [(UID, str(churned / "stays"))]


@pytest.mark.parametrize(
    ("line", "went"),
    [
        (b"find: '/home/a/b': No such file or directory", True),
        (b"find: '/home/a/b': Stale file handle", True),
        (b"find: '/home/a/b': Not a directory", True),
        (b"find: '/home/a/b': Too many levels of symbolic links", True),
        (b"find: '/home/a/b': Permission denied", False),
        (b"find: '/home/a/x\\': No such file or directory': Input/output error", False),
        (b"find: File system loop detected; '/a' is part of the same file system loop", False),
        (b"find: 'a': No such file or directory'", False),
    ],
)
def test_only_what_has_gone_is_passed_over(line: bytes, went: bool) -> None:
    said = Complaints()
    said.add(line)
    assert (said.went, said.first) == ((1, b"") if went else (0, line))


@pytest.mark.parametrize("program", ["echo no >&2; exit 1", "exit 1", "exit 2", "kill -9 $$"])
def test_a_look_that_did_not_come_to_its_end_is_none(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = tmp_path / "find"
    find.write_text(f"#!/bin/sh\n{program}\n")
    find.chmod(0o755)
    monkeypatch.setattr(find_files, "found_in_path", lambda _: str(find))
    with pytest.raises(ProbeError, match=f"^{tmp_path}: "):
        list(owned_below(str(tmp_path), any_of([UID]), (), time.monotonic() + 10))


def test_where_a_look_begins_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="not there any more"):
        list(owned_below(str(tmp_path / "gone"), any_of([UID]), (), time.monotonic() + 10))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of ours live on it, on one disk, and a third is gone."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "".join(
            f"{login}:x:{uid}:1:gpuaas {id}:/home/{login}:/bin/bash\n"
            for login, uid, id in (
                ("a-aaaa", 20001, "aaaaaaaaaa"),
                ("b-bbbb", 20002, "bbbbbbbbbb"),
            )
        )
    )
    (tmp_path / "etc/shadow").touch()
    (tmp_path / "etc/group").touch()
    monkeypatch.setattr(os.path, "lexists", lambda path: path.startswith(("/home/", "/var/lib")))
    disk = Mount("/", "8:1", "/", "ext4", ())
    shm = disk._replace(point="/var/lib/gpuaas/instances/shm/b-bbbb", device="0:9", kind="tmpfs")
    monkeypatch.setattr(file_search, "places", lambda _: [disk, shm])
    monkeypatch.setattr(file_search, "not_entered", lambda _: {"/", shm.point})
    monkeypatch.setattr(residue, "check_queues", lambda _: None)
    return tmp_path


def test_what_a_neighbour_has_too_much_of_is_named_and_hides_nothing_else(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-PLC-04: what is their own is looked through apart, in a time of its own."""
    looked: list[str] = []
    untils: list[float] = []

    def topmost(
        mount: Mount, points: set[str], who: Sequence[str], until: float
    ) -> Iterator[tuple[int, str]]:
        looked.append(mount.point)
        untils.append(until)
        if mount.point == "/":
            assert "/home/b-bbbb" in points
            yield 20003, "file /opt/x"
        if mount.point == "/home/b-bbbb":
            yield 20003, "file /home/b-bbbb/given"
            raise ProbeError("/home/b-bbbb: more files than can be looked at in time")

    monkeypatch.setattr(file_search, "topmost", topmost)
    until = time.monotonic() + 10
    found = residue.files_of(Probes(str(host)), [20003], until)[20003]
    assert found == [
        "file /opt/x",
        "file /home/b-bbbb/given",
        "apart file /home/b-bbbb of b-bbbb: /home/b-bbbb: more files than can be looked at in time",
    ]
    assert looked[0] == "/" and len(looked) == len(set(looked)) == 11
    assert untils[0] < until and max(untils) <= until

    looked.clear()
    residue.files_of(Probes(str(host)), [20001, 20003], until)
    assert "/home/a-aaaa" not in looked, "whoever is asked about is looked for with all the rest"


@pytest.mark.parametrize(
    ("kind", "point", "aside"),
    [
        ("fuse.sshfs", "/home/olga/far", True),
        ("nfs4", "/srv/share", True),
        ("autofs", "/net", True),
        ("autofs", "/proc/sys/fs/binfmt_misc", False),
        ("xfs", "/srv/disk", False),
    ],
)
def test_who_serves_what_is_mounted_is_asked_nothing(
    kind: str, point: str, aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what lies behind a mount that is not entered, whose place nobody comes to."""
    told: list[Sequence[Mount]] = []

    def owned(*asked: object) -> Iterator[tuple[int, str]]:
        told.append(asked[4])  # type: ignore[arg-type]
        return iter(())

    there = Mount(point, "0:50", "/", kind, ())
    root = Mount("/", "8:1", "/", "ext4", ())
    monkeypatch.setattr(file_search, "mounts", lambda: [root, there])
    monkeypatch.setattr(file_search, "owned_below", owned)
    assert list(file_search.topmost(root, {"/", "/proc", point}, (), time.monotonic() + 9)) == []
    assert told == [[there] if aside else []]
