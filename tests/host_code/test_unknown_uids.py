"""What there is of anybody whom a tenant's number may belong to; all of it, or no answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuaas import file_search, unknown_uids
from gpuaas.mounts import Mount
from gpuaas.probes import ProbeError, Probes

from tests import privileges

FIRST, LAST = 20000, 59999
GONE, ANA, LOW = 20007, 1000, 19000
as_root = privileges.needs(privileges.giving_away)
HEAD = {"shm": "key shmid perms uid gid cuid cgid", "msg": "key msqid uid gid cuid cgid"}
HEAD["sem"] = "key semid uid gid cuid cgid"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a person, one tenant of ours whose number is below the range, and no more."""
    files = {
        "etc/passwd": (
            f"ana:x:{ANA}:{ANA}:Ana:/home/ana:/bin/bash\n"
            f"old-aaaa:x:{LOW}:20100:gpuaas abcdefghij:/home/old-aaaa:/bin/bash\n"
        ),
        "etc/group": "gpuaas-tenants:x:980:\n",
        "etc/shadow": "ana:*:::::::\n",
        **{f"proc/sysvipc/{kind}": head + "\n" for kind, head in HEAD.items()},
        "proc/net/tcp": "  sl  local_address rem_address   st tx rx tr tm retrnsmt uid to inode\n",
        "run/systemd/sessions/c1": f"UID={ANA}\nUSER=ana\nCLASS=user\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "data").mkdir()
    disk = Mount(str(tmp_path / "data"), "8:1", "/", "ext4", ())
    monkeypatch.setattr(file_search, "places", lambda probes: [disk])
    monkeypatch.setattr(file_search, "not_entered", lambda probes: {disk.point})
    process(tmp_path, 7, ANA)
    return tmp_path


def process(root: Path, pid: int, *uids: int) -> None:
    (root / f"proc/{pid}").mkdir(parents=True)
    shown = "\t".join(map(str, (uids * 4)[:4]))
    text = f"Name:\tsleep\nState:\tS (sleeping)\nUid:\t{shown}\nThreads:\t1\n"
    (root / f"proc/{pid}/status").write_text(text)


def look(root: Path) -> dict[str, list[str]]:
    return unknown_uids.read_strangers(Probes(str(root)), FIRST, LAST)


def owned(root: Path) -> None:
    (root / "data/left/deep").mkdir(parents=True)
    for path in ("data/left", "data/left/deep"):
        os.chown(root / path, GONE, GONE)


def append(path: str, line: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with (root / path).open("a") as file:
            file.write(line)

    return change


def in_its_slice(root: Path) -> None:
    folder = root / f"sys/fs/cgroup/user.slice/user-{GONE}.slice"
    folder.mkdir(parents=True)
    process(root, 9, 0)
    (root / "proc/9/cgroup").write_text(f"0::/user.slice/user-{GONE}.slice/session-1.scope\n")


def session(root: Path) -> None:
    (root / "run/systemd/sessions/c2").write_text(f"UID={GONE}\nUSER=gone\nCLASS=user\n")


def test_people_and_the_host_itself_are_none(root: Path) -> None:
    """An account of ours is told whatever its number is."""
    assert look(root) == {str(LOW): ["account old-aaaa"]}


@as_root
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda root: process(root, 8, GONE), "process 8 sleep"),
        (lambda root: process(root, 8, 0, 0, GONE, 0), "process 8 sleep"),
        (in_its_slice, "process 9 sleep in its slice"),
        (session, "session c2"),
        (append("etc/passwd", f"gone:x:{GONE}:1::/:/bin/sh\n"), "account gone"),
        (append("proc/sysvipc/shm", f"0 42 600 {ANA} 0 {GONE} 0\n"), "shm 42"),
        (append("proc/sysvipc/sem", f"0 43 {GONE} 0 {GONE} 0\n"), "sem 43"),
        (append("proc/net/tcp", f"0: 0100:1F90 0 0A 0 0 0 {GONE} 0 77\n"), "socket tcp 0100:1F90"),
        (owned, "file {root}/data/left"),
    ],
)
def test_whatever_there_is_of_one(root: Path, change: Callable[[Path], None], told: str) -> None:
    """F-PLC-04, F-PLC-05: by its number alone, as nobody remembers more of it."""
    change(root)
    assert look(root)[str(GONE)] == [told.format(root=root)]


def test_the_range_has_two_ends(root: Path) -> None:
    for pid, uid in enumerate((FIRST - 1, FIRST, LAST, LAST + 1), start=20):
        process(root, pid, uid)
    assert look(root).keys() == {str(LOW), str(FIRST), str(LAST)}


def test_an_answer_has_room_for_some_of_many(root: Path) -> None:
    for pid in range(100, 120):
        process(root, pid, GONE)
    found = look(root)[str(GONE)]
    assert len(found) == unknown_uids.MAX_NAMED + 1 and found[-1] == "and 15 more"


@pytest.mark.parametrize(
    "missing", ["etc/passwd", "proc/sysvipc/msg", "run/systemd/sessions/c1", "data"]
)
def test_half_a_look_is_none(root: Path, missing: str) -> None:
    """F-ANS-03: nothing seen is not nothing there."""
    path = root / missing
    path.unlink() if path.is_file() else path.rmdir()
    if missing.startswith("run"):
        path.parent.rmdir()
    with pytest.raises((OSError, ProbeError)):
        look(root)


@as_root
@pytest.mark.parametrize(
    ("about", "known"),
    [
        ("a volume", True),
        ("no record beside it", False),
        ("a record of the tenant's own", False),
        ("a folder that others may come to", False),
        ("a name that is none", False),
    ],
)
def test_data_of_volumes_is_no_stranger(root: Path, about: str, known: bool) -> None:
    """F-STO-03: on a folder that hosts share, it may be of one that this host has never had."""
    folder = root / "data" / ("volume" if about == "a name that is none" else "abcdefghij")
    (folder / "data/run").mkdir(parents=True)
    os.chown(folder / "data/run", GONE, GONE)
    folder.chmod(0o711 if about == "a folder that others may come to" else 0o700)
    if about != "no record beside it":
        (folder / "volume.json").write_text("{}")
        os.chown(folder / "volume.json", GONE if "tenant" in about else 0, 0)
    assert (str(GONE) not in look(root)) is known
