"""A full disk keeps nobody in: keys go where they stand, and what is written has its own room."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from gpuaas import access, free_space, reserve
from gpuaas.files import put_file, replace
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import Probes

from tests import privileges
from tests.fleets import public_key
from tests.harness.directory_host import ID, KEYS, LOGIN

pytestmark = privileges.needs(privileges.loops)

BYTES, FILES = "bytes", "files"
FILL = """
import os, sys
number = 0
while True:
    number += 1
    try:
        with open(f"{sys.argv[1]}/fill{number}", "xb", buffering=0) as file:
            while sys.argv[2] == "bytes":
                file.write(bytes(1024))
    except OSError:
        number += 1
"""
"""Takes whatever becomes free, at once and for ever."""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host's whole disk: small, and with nothing that the kernel keeps back for root."""
    image, point = tmp_path / "image", tmp_path / "disk"
    point.mkdir()
    subprocess.run(["truncate", "-s", "4M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-N", "160", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        settings = point / "etc/gpuaas"
        (settings / "ssh").mkdir(parents=True)
        (point / "tenant").mkdir()
        monkeypatch.setattr(reserve, "FOLDER", str(point / "etc/gpuaas-reserve"))
        monkeypatch.setattr(reserve, "SETTINGS", str(settings))
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@contextmanager
def filled(disk: Path, what: str) -> Iterator[None]:
    words = [sys.executable, "-c", FILL, str(disk / "tenant"), what]
    with subprocess.Popen(words) as filling:
        try:
            while not is_full(disk):
                assert filling.poll() is None
            yield
        finally:
            filling.kill()


def is_full(disk: Path) -> bool:
    try:
        (disk / "tried").write_bytes(bytes(1024))
    except OSError as error:
        assert error.errno == errno.ENOSPC
        return True
    finally:
        with suppress(FileNotFoundError):
            (disk / "tried").unlink()
    return False


@contextmanager
def opened(disk: Path, *, borrows: bool = True) -> Iterator[Tree]:
    folder = os.open(disk, os.O_RDONLY | os.O_DIRECTORY)
    try:
        tree = Tree(folder, dry=False)
        tree.borrows = borrows
        yield tree
    finally:
        os.close(folder)


def sync(*people: str) -> dict[str, object]:
    text = "".join(f"{public_key(name)}\n" for name in people)
    file = [{"path": KEYS, "mode": "0644", "content": text}] if people else []
    return {
        "id": ID,
        "login": LOGIN,
        "uid": 0,
        "gid": 0,
        "files": file,
        "absent": [] if people else [KEYS],
    }


@pytest.mark.parametrize("what", [BYTES, FILES])
def test_keys_go_and_others_stay_while_somebody_takes_all_that_becomes_free(
    disk: Path, what: str
) -> None:
    """F-GRT-02: what is lent has its room throughout, so there is no moment to be quicker in."""
    keys = disk / KEYS.lstrip("/")
    with opened(disk) as tree:
        access.run(tree, sync("ana", "bo", "cem"))
        reserve.make_whole()
        assert reserve.read_reserve(Probes("/")) == "whole"
        with filled(disk, what):
            access.run(tree, sync("ana", "bo"))
            assert keys.read_text() == f"{public_key('ana')}\n{public_key('bo')}\n"
            for _ in range(20):
                access.run(tree, sync("bo"))
                access.run(tree, sync("ana"))
            access.run(tree, sync())
        assert not keys.exists()
    assert reserve.read_reserve(Probes("/")).endswith(f"of {reserve.PIECES} pieces")
    for left in (disk / "tenant").iterdir():
        left.unlink()
    reserve.make_whole()
    assert reserve.read_reserve(Probes("/")) == "whole"


@pytest.mark.parametrize("what", [BYTES, FILES])
def test_without_a_reserve_a_key_is_struck_out_all_the_same(disk: Path, what: str) -> None:
    """It is told that the file is not as it should be; and it opens for nobody who has left."""
    keys = disk / KEYS.lstrip("/")
    with opened(disk) as tree:
        access.run(tree, sync("ana", "bo"))
        with filled(disk, what), pytest.raises(OSError, match="No space left"):
            access.run(tree, sync("ana"))
        struck = "#" * len(public_key("bo"))
        assert keys.read_text() == f"{public_key('ana')}\n{struck}\n"
        assert os.listdir(keys.parent) == [LOGIN]


def test_where_nothing_can_be_struck_out_the_file_goes(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems need room for whatever changes: nobody gets in rather than anybody."""

    def full(place: tuple[int, str], data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(access, "write_over", full)
    with opened(disk) as tree:
        access.run(tree, sync("ana", "bo"))
        access.strike_out(tree, KEYS, f"{public_key('ana')}\n")
        assert not (disk / KEYS.lstrip("/")).exists()
        access.run(tree, sync("ana"))
        assert (disk / KEYS.lstrip("/")).read_text() == f"{public_key('ana')}\n"


def test_a_key_that_opens_less_from_now_on_is_struck_out_too(disk: Path) -> None:
    """Its name may change; from where it opens, and what for, may not stay as it was."""
    ana, bo = public_key("ana").rsplit(" ", 1)[0], public_key("bo")
    with opened(disk) as tree:
        put_file(tree, KEYS, f"{ana} ana\n{bo}\n", "0644")
        access.strike_out(tree, KEYS, f'{ana} ana@new\nfrom="10.0.0.1" {bo}\n')
        assert (disk / KEYS.lstrip("/")).read_text() == f"{ana} ana\n{'#' * len(bo)}\n"


def test_sessions_end_before_anything_is_written(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-GRT-10: and where one does not end, keys that remain are written, and it is told."""
    done: list[str] = []

    def ended(tree: Tree, login: str, uid: int, keys: frozenset[str]) -> None:
        done.append("sessions")
        raise Refusal("processes_left", "session 7 does not end")

    def put(*told: object) -> None:
        done.append("keys")

    monkeypatch.setattr(access, "end_others", ended)
    monkeypatch.setattr(access, "put_file", put)
    monkeypatch.setattr(Tree, "whole_host", True)
    with opened(disk) as tree:
        put_file(tree, KEYS, f"{public_key('bo')}\n", "0644")
        with pytest.raises(Refusal, match="session 7"):
            access.run(tree, {**sync("ana"), "uid": 20001})
    assert done == ["sessions", "keys"]
    assert public_key("bo") not in (disk / KEYS.lstrip("/")).read_text()


def test_what_gives_borrows_nothing(disk: Path) -> None:
    """The reserve is for taking away: whoever fills a disk keeps others from being let in, only."""
    with opened(disk, borrows=False) as tree:
        reserve.make_whole()
        with filled(disk, FILES), pytest.raises(OSError, match="No space left"):
            put_file(tree, KEYS, "new", "0644")
        assert reserve.read_reserve(Probes("/")) == "whole"


def test_what_is_larger_than_a_piece_is_written_in_the_room_of_all(disk: Path) -> None:
    parent = os.open(disk / "etc", os.O_RDONLY)
    try:
        reserve.make_whole()
        fill = disk / "tenant/fill"
        with suppress(OSError), open(fill, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
        data = bytes(2 * reserve.SIZE)
        replace((parent, "large"), data, 0o644, (0, 0), borrows=True)
        assert (disk / "etc/large").read_bytes() == data
        assert reserve.read_reserve(Probes("/")) == f"0 of {reserve.PIECES} pieces"
    finally:
        os.close(parent)


def test_programs_of_the_host_find_room_where_there_was_none(disk: Path) -> None:
    reserve.make_whole()
    reserve.make_room()
    assert reserve.read_reserve(Probes("/")) == "whole", "nothing is given up without need"
    for number in range(200):
        with suppress(OSError):
            (disk / f"tenant/{number}").touch()
    assert is_full(disk)
    reserve.make_room()
    assert not is_full(disk)


def test_a_reserve_that_is_open_to_others_is_none(disk: Path) -> None:
    reserve.make_whole()
    os.chmod(reserve.FOLDER, 0o755)
    assert reserve.read_reserve(Probes("/")) == "none"
    assert not reserve.give_up()


def test_what_a_preparation_makes_of_it_can_be_put_back(disk: Path) -> None:
    made = reserve.missing()
    reserve.make_whole()
    assert {str(path) for path in Path(reserve.FOLDER).iterdir()} | {reserve.FOLDER} == {*made}
    assert made[0] == reserve.FOLDER, "what is put back last was saved first"
    assert reserve.missing() == []


def test_a_host_that_was_never_prepared_has_none(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "SETTINGS", str(disk / "nowhere"))
    reserve.make_whole()
    assert not os.path.exists(reserve.FOLDER)


def test_what_shares_a_disk_with_the_hosts_own_is_told(disk: Path) -> None:
    root = disk / "host"
    for place in ("etc", "var/log", "home"):
        (root / place).mkdir(parents=True)
    told = free_space.read_disk(Probes(str(root)))
    assert told["tenants"] == "with the host's own: /home"
    assert told["quotas"].startswith("none: ext4 at ")
    (root / "home").rmdir()
    (root / "home").symlink_to("/dev/shm")
    assert free_space.read_disk(Probes(str(root)))["tenants"] == free_space.APART
