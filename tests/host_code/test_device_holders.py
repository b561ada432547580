"""Who has a card open: whoever it is, unless it is a program that keeps or watches cards."""

from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpuaas import device_holders, open_devices
from gpuaas.probes import Probes

from tests import privileges

with_nodes = privileges.needs(privileges.nodes)
PASSWD = """\
root:x:0:0:root:/root:/bin/bash
persist:x:143:143:Persistence:/:/usr/sbin/nologin
olga:x:1000:1000:Olga:/home/olga:/bin/bash
a-abcd:x:20001:20001:gpuaas abcdefghij:/home/a-abcd:/bin/bash
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/shadow").write_text("")
    (tmp_path / "etc/group").write_text("gpuaas-tenants:x:19998:a-abcd\n")
    for name in ("proc", "usr/bin", "usr/local/bin", "dev"):
        (tmp_path / name).mkdir(parents=True)
    for minor in (0, 3, 255):
        node = tmp_path / f"dev/any-name-{minor}"
        os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(195, minor))
    return tmp_path


def program(root: Path, path: str, mode: int = 0o755, owner: int = 0) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    os.chown(file, owner, owner)
    return file


def process(
    root: Path, pid: int, uid: int, exe: Path, *minors: int, maps: tuple[int, ...] = ()
) -> None:
    folder = root / f"proc/{pid}"
    (folder / "fd").mkdir(parents=True)
    uids = "\t".join([str(uid)] * 4)
    (folder / "status").write_text(f"Name:\tany\nState:\tS (x)\nUid:\t{uids}\nThreads:\t1\n")
    (folder / "cgroup").write_text("0::/system.slice/watch.service\n" if uid < 1000 else "0::/\n")
    (folder / "exe").symlink_to(exe)
    (folder / "map_files").mkdir()
    for at, minor in enumerate(maps):
        (folder / f"map_files/7f0{at}-7f0{at + 1}").symlink_to(root / f"dev/any-name-{minor}")
    for at, minor in enumerate(minors):
        (folder / f"fd/{at}").symlink_to(root / f"dev/any-name-{minor}")


@with_nodes
@pytest.mark.parametrize(
    ("uid", "whose"),
    [
        (0, "root, watch.service"),
        (143, "persist, watch.service"),
        (1000, "olga"),
        (4711, "uid 4711"),
        (20001, "a-abcd"),
    ],
)
def test_every_open_handle_counts_whoever_holds_it(root: Path, uid: int, whose: str) -> None:
    """F-REAL-04: root's, a service's, an ordinary account's, nobody's and a tenant's."""
    process(root, 77, uid, program(root, "usr/bin/python3"), 3, 255)
    assert device_holders.holders_by_minor(Probes(str(root))) == {3: [f"process 77 any of {whose}"]}


@with_nodes
def test_what_is_mapped_is_open(root: Path) -> None:
    """F-REAL-04: a handle that was closed after it was mapped is one still."""
    process(root, 77, 0, program(root, "usr/bin/python3"), maps=(0, 255))
    assert list(device_holders.holders_by_minor(Probes(str(root)))) == [0]


@with_nodes
@pytest.mark.parametrize("path", device_holders.KEEPERS)
@pytest.mark.parametrize("uid", [0, 143])
def test_programs_that_keep_or_watch_cards_are_no_holders(root: Path, path: str, uid: int) -> None:
    """F-REAL-04: by the file that runs, whatever account it runs as."""
    process(root, 77, uid, program(root, path), 0, 3)
    assert device_holders.holders_by_minor(Probes(str(root))) == {}


@with_nodes
@pytest.mark.parametrize(
    ("path", "mode", "owner", "uid"),
    [
        ("home/olga/nv-hostengine", 0o755, 0, 1000),
        ("usr/bin/nv-hostengine", 0o757, 0, 0),
        ("usr/bin/nv-hostengine", 0o775, 0, 0),
        ("usr/bin/nv-hostengine", 0o755, 1000, 1000),
        ("usr/bin/nv-hostengine", 0o755, 0, 20001),
        ("var/lib/containers/x/usr/bin/nv-hostengine", 0o755, 0, 0),
    ],
    ids=[
        "elsewhere",
        "others may write",
        "a group may write",
        "not root's",
        "of a tenant",
        "inside",
    ],
)
def test_a_name_makes_no_keeper(root: Path, path: str, mode: int, owner: int, uid: int) -> None:
    """F-REAL-04: not a name, not a file that others can change, and never a tenant."""
    process(root, 77, uid, program(root, path, mode, owner), 0)
    assert list(device_holders.holders_by_minor(Probes(str(root)))) == [0]


@with_nodes
def test_a_program_that_was_replaced_is_another(root: Path) -> None:
    """F-REAL-04: what runs is the file, not the path that it once had."""
    exe = program(root, "usr/bin/nv-hostengine")
    process(root, 77, 0, exe.rename(root / "usr/bin/old"), 0)
    program(root, "usr/bin/nv-hostengine")
    assert list(device_holders.holders_by_minor(Probes(str(root)))) == [0]


@with_nodes
def test_the_noise_of_one_hides_nobody_elses(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has more open than there is time for is named, and their neighbours are looked at."""
    exe = program(root, "usr/bin/python3")
    with (root / "etc/passwd").open("a") as file:
        file.write("b-efgh:x:20002:20002:gpuaas bbbbbbbbbb:/home/b-efgh:/bin/bash\n")
    for pid, uid in ((70, 20001), (71, 20001), (72, 20002), (73, 0), (74, (20001 << 16) + 5)):
        process(root, pid, uid, exe, 3)
    for number in range(10, 200):
        (root / f"proc/70/fd/{number}").symlink_to("socket:[1]")
    ticks = count()
    monkeypatch.setattr(open_devices, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 30))
    monkeypatch.setattr(open_devices, "PROCESS_SECONDS", open_devices.OWNER_SECONDS)
    probes = Probes(str(root))
    why = "more is open than can be looked at in time"
    whys = [f"process {pid} any of a-abcd: {why}" for pid in (70, 71, 74)]
    assert device_holders.unseen_cards(probes) == whys
    assert device_holders.held_cards(probes) == ["process 72 any of b-efgh has /dev/nvidia3 open"]
    assert [words.split()[1] for words in device_holders.holders_by_minor(probes)[3]] == [
        "72",
        "73",
    ]
    assert [words.split()[1] for words in device_holders.hidden(probes)] == ["70", "71", "74"]


@with_nodes
def test_what_a_slice_holds_is_its_tenants_whatever_it_runs_as(root: Path) -> None:
    """A program of root's that it has started, as by `sudo`, is no keeper."""
    process(root, 77, 0, program(root, "usr/bin/nv-hostengine"), 0)
    (root / "proc/77/cgroup").write_text("0::/user.slice/user-20001.slice/session-1.scope\n")
    assert device_holders.held_cards(Probes(str(root))) == [
        "process 77 any of a-abcd has /dev/nvidia0 open"
    ]
