"""Files of an ended allocation become those of another one, on hosts that are folders."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuaas import owners, reopen_volume

from tests.host_code.volume_host import (
    DIRECTORY,
    ID,
    RECORD,
    SHARED,
    VOLUME,
    attached,
    detached,
    had,
    host,
    opened,
    refused,
    wiped,
)
from tests.privileges import giving_away, mounts, needs, nodes

pytestmark = needs(giving_away)

OLD, NEXT, NEXT_LOGIN = ID, "bcdefghijk", "train-b-bcde"
OLD_UID, UID, COLLEAGUE = 21_001, 21_002, 21_003


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = host(tmp_path / "host")
    account = f"{NEXT_LOGIN}:x:{UID}:5000:gpuaas {NEXT}:/home/{NEXT_LOGIN}:/bin/bash\n"
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/root:/bin/bash\n{account}")
    (root / "etc/shadow").write_text("root:!:1::::::\n")
    (root / "etc/group").write_text("root:x:0:\n")
    attached(root, had())
    detached(root)
    attached(root, had(make=False), id=NEXT, login=NEXT_LOGIN)
    return root


@pytest.fixture
def data(root: Path) -> Path:
    return root / f"srv/volumes/{VOLUME}/data"


def item(**changes: Any) -> dict[str, Any]:
    return {
        "id": NEXT,
        "login": NEXT_LOGIN,
        "uid": UID,
        "volume": VOLUME,
        "backend": DIRECTORY,
        "fenced": [],
        "from": OLD,
        "fromUid": OLD_UID,
        **changes,
    }


def reopened(root: Path, **changes: Any) -> dict[str, str]:
    with opened(root) as tree:
        reopen_volume.run(tree, item(**changes))
        return tree.said


def put(path: Path, uid: int = OLD_UID, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.chown(path, uid, 5000)
    path.chmod(mode)
    return path


def owner(path: Path) -> int:
    return os.lstat(path).st_uid


def test_what_he_wrote_is_his_again_and_nobody_elses(root: Path, data: Path) -> None:
    """F-REAL-11: files, folders and links of that one uid; groups and modes are what they were."""
    mine, theirs = put(data / "run/secret"), put(data / "run/theirs", COLLEAGUE)
    os.chown(data / "run", OLD_UID, 5000)
    (data / "run").chmod(0o2700)
    (data / "latest").symlink_to("/etc/passwd")
    os.chown(data / "latest", OLD_UID, 5000, follow_symlinks=False)
    assert reopened(root) == {"reopened": "all 3", "left": ""}
    assert [owner(p) for p in (mine, data / "run", data / "latest")] == [UID] * 3
    assert (owner(theirs), owner(root / "etc/passwd"), owner(data)) == (COLLEAGUE, 0, 0)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600 and mine.stat().st_gid == 5000
    assert stat.S_IMODE((data / "run").stat().st_mode) == 0o2700
    assert reopened(root) == {"reopened": "all 0", "left": ""}
    assert not (root / f"srv/volumes/{VOLUME}/reopening").exists()


def test_what_ran_as_him_does_not_run_as_somebody_else(root: Path, data: Path) -> None:
    """F-REAL-11: a program that anybody may start as its owner."""
    program = put(data / "program", mode=0o6755)
    reopened(root)
    assert (owner(program), stat.S_IMODE(program.stat().st_mode)) == (UID, 0o755)


def test_a_name_outside_is_not_given_away(root: Path, data: Path) -> None:
    """F-REAL-11: as a copy of hard links has one; what has all of its names in here is given."""
    inside, outside = put(data / "b/inside"), put(data / "outside")
    (data / "a").mkdir()
    os.link(inside, data / "a/again")
    os.link(outside, root / "srv/backup")
    put(data / "single")
    said = reopened(root)
    assert said == {
        "reopened": "all 2",
        "left": "1 more names elsewhere: outside (more names elsewhere)",
    }
    assert (owner(inside), owner(data / "a/again")) == (UID, UID)
    assert (owner(outside), owner(root / "srv/backup")) == (OLD_UID, OLD_UID)


@needs(nodes)
def test_what_is_no_file_of_his_is_left_and_told_of(root: Path, data: Path) -> None:
    """F-REAL-11: devices, numbers of users in their containers, and what lies too deep to hold."""
    os.mknod(data / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.chown(data / "null", OLD_UID, 5000)
    put(data / "layer", OLD_UID * 65536 + 5)
    os.mkfifo(data / "pipe")
    os.chown(data / "pipe", OLD_UID, 5000)
    said = reopened(root)
    assert said["reopened"] == "all 1" and owner(data / "pipe") == UID
    assert said["left"] == (
        "1 a device, 1 of a container's user: layer (of a container's user); null (a device)"
    )


def test_nesting_holds_up_nobody(root: Path, data: Path) -> None:
    """F-REAL-11: what lies deeper is told of; nothing fails by it."""
    folder = os.open(data, os.O_RDONLY)
    for _ in range(owners.MAX_DEPTH + 60):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.fchown(inner, OLD_UID, 5000)
        os.close(folder)
        folder = inner
    os.close(folder)
    said = reopened(root)
    assert said["reopened"] == f"all {owners.MAX_DEPTH + 1}"
    assert said["left"].startswith("1 nested too deep")
    shutil.rmtree(data / "d", ignore_errors=True)


@pytest.fixture
def mounted(data: Path) -> Iterator[tuple[Path, Path]]:
    """A folder and a file of the same file system, mounted below the data."""
    far, file = data.parents[3] / "far", put(data.parents[3] / "file")
    put(far / "secret")
    for place in ((data / "far"), (data / "file")):
        put(place) if place.name == "file" else place.mkdir()
        subprocess.run(["mount", "--bind", data.parents[3] / place.name, place], check=True)
    yield far / "secret", file
    for place in ((data / "far"), (data / "file")):
        subprocess.run(["umount", place], check=True)


@needs(mounts)
def test_it_ends_where_something_is_mounted(
    root: Path, data: Path, mounted: tuple[Path, Path]
) -> None:
    """F-REAL-11: of the same file system as well, whose numbers are the same."""
    assert reopened(root)["left"].startswith("2 mounted there: ")
    assert [owner(path) for path in mounted] == [OLD_UID, OLD_UID]


def test_a_call_ends_in_time_and_the_next_goes_on(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-11: whatever is left to do, and however often it is cut short."""
    files = [put(data / f"{folder}/{odd}") for folder in "abc" for odd in ("1", "2", "n\udcff")]
    os.link(files[0], data / "c/link")
    os.link(files[3], root / "srv/backup")
    monkeypatch.setattr(reopen_volume, "CALL_SECONDS", -1.0)
    calls = 0
    while not (said := reopened(root))["reopened"].startswith("all"):
        calls += 1
        assert calls < 100
    assert calls > len(files)
    assert said["reopened"] == "all 8" and said["left"].startswith("1 more names elsewhere: b/1")
    assert [owner(path) == UID for path in files] == [path != files[3] for path in files]
    assert not list((root / f"srv/volumes/{VOLUME}/reopening").iterdir())


def test_a_call_that_was_killed_is_done_again(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-11: what it has changed stays, and how far it came is what was last written down."""
    files = [put(data / f"{n}") for n in range(6)]
    os.link(files[0], data / "z")
    monkeypatch.setattr(reopen_volume, "CALL_SECONDS", -1.0)
    reopened(root)
    with monkeypatch.context() as patch:
        patch.setattr(reopen_volume, "put_file", die)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                reopened(root)
    monkeypatch.setattr(reopen_volume, "CALL_SECONDS", 9.0)
    assert reopened(root)["reopened"].startswith("all")
    assert {owner(path) for path in files} == {UID}


def test_progress_that_nobody_can_read_is_none(root: Path, data: Path) -> None:
    """F-REAL-11: it begins anew, and changes nothing a second time."""
    file = put(data / "file")
    place = root / f"srv/volumes/{VOLUME}/reopening"
    for text in ("{", "[1]", '{"names": 1}'):
        place.mkdir(exist_ok=True)
        (place / f"{OLD}.{NEXT}.json").write_text(text)
        os.chown(file, OLD_UID, 5000)
        assert reopened(root) == {"reopened": "all 1", "left": ""}


def test_each_pair_has_a_progress_of_its_own(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-11: nobody is led past files by how far another change of owner has come."""
    for name in "abc":
        put(data / name)
    monkeypatch.setattr(reopen_volume, "CALL_SECONDS", -1.0)
    for _ in range(2):
        reopened(root)
    (kept,) = (root / f"srv/volumes/{VOLUME}/reopening").iterdir()
    assert kept.name == f"{OLD}.{NEXT}.json" and json.loads(kept.read_text())["at"] == ["c"]
    assert owner(data / "c") == OLD_UID
    os.chown(data / "a", 21_009, 5000)
    assert reopened(root, **{"from": "cdefghijkl", "fromUid": 21_009})["reopened"] == "more 1"


def test_a_wipe_takes_the_progress_along(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-07: nothing of it stands in the way of a volume of that name."""
    put(data / "a")
    put(data / "b")
    monkeypatch.setattr(reopen_volume, "CALL_SECONDS", -1.0)
    reopened(root)
    detached(root, id=NEXT, login=NEXT_LOGIN)
    wiped(root)
    assert not (root / f"srv/volumes/{VOLUME}").exists() and not (root / RECORD[1:]).exists()


class TestRefused:
    """F-REAL-11: nothing is touched."""

    @pytest.fixture(autouse=True)
    def untouched(self, data: Path) -> Iterator[None]:
        file = put(data / "file")
        yield
        assert owner(file) == OLD_UID

    def test_while_he_has_it_anywhere(self, root: Path) -> None:
        """By what stands beside the data, also of another host; not if they were cut off."""
        record = root / f"srv/volumes/{VOLUME}/holders/{OLD}.{'2' * 32}"
        told = dict.fromkeys(("login", "mode", "mount_path", "access"), "x")
        record.write_text(json.dumps({**told, "allocation": OLD, "machine": "2" * 32}))
        assert refused(reopened, root)[0] == "storage_in_use"
        record.write_text("{")
        assert refused(reopened, root)[0] == "volume_fenced"

    def test_while_he_is_on_this_host(self, root: Path) -> None:
        descriptor = root / f"etc/gpuaas/allocations/{OLD}.json"
        descriptor.parent.mkdir(parents=True)
        descriptor.write_text("{}")
        assert refused(reopened, root)[0] == "storage_in_use"

    def test_where_the_other_does_not_have_it(self, root: Path) -> None:
        detached(root, id=NEXT, login=NEXT_LOGIN)
        assert refused(reopened, root)[0] == "volume_not_mounted"

    @pytest.mark.parametrize(
        "line",
        [
            f"somebody:x:{OLD_UID}:100::/home/x:/bin/sh\n",
            f"other-b-bcde:x:{UID}:100::/home/x:/bin/sh\n",
        ],
    )
    def test_where_a_uid_is_somebody_elses(self, root: Path, line: str) -> None:
        with (root / "etc/passwd").open("a") as file:
            file.write(line)
        assert refused(reopened, root)[0] == "account_conflict"

    def test_where_the_other_has_no_account(self, root: Path) -> None:
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        assert refused(reopened, root)[0] == "account_conflict"

    def test_where_the_data_is_not_there(self, root: Path, data: Path) -> None:
        os.rename(data, root / "away")
        assert refused(reopened, root)[0] == "volume_missing"
        os.rename(root / "away", data)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"uid": 0},
            {"fromUid": 0},
            {"fromUid": UID},
            {"from": NEXT},
            {"from": "../../../x"},
            {"login": "root"},
        ],
    )
    def test_what_is_no_two_tenants(self, root: Path, wrong: dict[str, Any]) -> None:
        assert refused(reopened, root, **wrong)[0] == "item_invalid"

    def test_another_volume_of_that_name(self, root: Path) -> None:
        (root / f"srv/volumes/{VOLUME}/volume.json").write_text('{"id": "volumebbbb"}')
        assert refused(reopened, root)[0] == "volume_not_blank"


def test_who_was_cut_off_is_in_nobodys_way(root: Path, data: Path) -> None:
    """F-STO-04: what a burnt host has written beside the data counts no more."""
    shared = root / f"srv/volumes/{VOLUME}/holders/{OLD}.{'2' * 32}"
    told = dict.fromkeys(("login", "mode", "mount_path", "access"), "x")
    shared.write_text(json.dumps({**told, "allocation": OLD, "machine": "2" * 32}))
    file = put(data / "file")
    assert reopened(root, backend=SHARED, fenced=[OLD])["reopened"] == "all 1"
    assert owner(file) == UID


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_folder_that_cannot_be_listed_costs_itself_alone(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-11: it is named, and what comes after it is given all the same."""
    files = [put(data / name / "f") for name in "abc"]
    sick, listed = (data / "b").stat().st_ino, os.listdir

    def failing(place: Any) -> list[str]:
        if isinstance(place, int) and os.fstat(place).st_ino == sick:
            raise OSError(5, "Input/output error")
        return listed(place)

    monkeypatch.setattr(os, "listdir", failing)
    said = reopened(root)
    assert [owner(one) for one in files] == [UID, OLD_UID, UID]
    assert "Input/output error" in str(said)
