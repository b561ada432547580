"""Volumes on hosts that are folders: made once, had by who may, wiped when nobody has them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpuaas import attach, attachments, create_volume, volume_fences, volumes
from gpuaas.paths import Refusal
from gpuaas.probes import Probes

from tests.harness.directory_host import tree as all_of
from tests.host_code.volume_host import (
    DIRECTORY,
    ID,
    LOGIN,
    OTHER,
    PLACE,
    RECORD,
    SHARED,
    VOLUME,
    attached,
    detached,
    forgotten,
    had,
    host,
    opened,
    refused,
    wiped,
)

NEXT, NEXT_LOGIN = "bcdefghijk", "train-b-bcde"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return host(tmp_path / "host")


@pytest.fixture
def data(root: Path) -> Path:
    """A volume that somebody has, with something in it."""
    attached(root, had())
    data = root / f"gpuaas/{ID}/data"
    (data / "log").write_text("one")
    return data


def test_what_is_there_stays_as_it_is(root: Path, data: Path) -> None:
    """STO-01, STO-03, OBJ-03: asked for again, it changes nothing; let go of, it loses nothing."""
    before = all_of(root)
    assert attached(root, had()) is False and all_of(root) == before
    assert attachments.read_attached(Probes(str(root))) == {f"{ID}/data": f"{VOLUME} rw at /data"}
    assert detached(root) is True and detached(root) is False
    assert attachments.read_attached(Probes(str(root))) == {}
    assert not (root / "gpuaas" / ID).exists()
    attached(root, had(make=False, mountPath="/workspace"), id=NEXT, login=NEXT_LOGIN)
    assert (root / f"gpuaas/{NEXT}/data/log").read_text() == "one"


def test_nobody_comes_to_it_past_what_is_mounted_for_him(root: Path, data: Path) -> None:
    """STO-04: who has it for reading alone cannot write by the way of somebody who may."""
    folder = root / f"srv/volumes/{VOLUME}"
    assert {oct(path.stat().st_mode)[-3:] for path in (folder, folder / "holders")} == {"700"}


@pytest.mark.parametrize("made_here", [True, False])
def test_what_was_made_is_never_made_anew(root: Path, data: Path, *, made_here: bool) -> None:
    """F-STO-01: its disk is away, and what stands there looks as it did before anything was made.

    Also where whoever asks does not know that it was made: their state is older than the host.
    """
    os.rename(root / "srv/volumes", root / "srv/away")
    code, said = refused(attached, root, had(make=made_here))
    assert code == "volume_missing" and VOLUME in said
    assert not (root / "srv/volumes").exists()
    os.rename(root / "srv/away", root / "srv/volumes")
    attached(root, had(make=made_here))
    assert (data / "log").read_text() == "one"


def test_data_that_is_away_is_not_replaced(root: Path, data: Path) -> None:
    """F-STO-01: the folder of a volume without its data is no new volume."""
    os.rename(root / f"srv/volumes/{VOLUME}/data", root / "srv/data")
    assert refused(attached, root, had(make=False))[0] == "volume_missing"
    assert not (root / f"srv/volumes/{VOLUME}/data").exists()


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({}, ""),
        ({".volume.json.gpuaas-new": "{"}, ""),
        ({"lock": ""}, ""),
        ({"lock": "", "precious": "x"}, "volume_not_blank"),
        ({"volume.json": json.dumps({"id": VOLUME})}, ""),
        ({"volume.json": json.dumps({"id": OTHER})}, "volume_not_blank"),
        ({"volume.json": "{"}, "volume_not_blank"),
        ({"volume.json": "[]"}, "volume_not_blank"),
        ({"precious": "x"}, "volume_not_blank"),
    ],
)
def test_what_others_have_made_is_not_touched(root: Path, found: dict[str, str], code: str) -> None:
    """F-STO-01: only what is empty, or says that it is this volume, is taken."""
    folder = root / f"srv/volumes/{VOLUME}"
    folder.mkdir(parents=True)
    for name, text in found.items():
        (folder / name).write_text(text)
    before = all_of(folder)
    assert refused(attached, root, had())[0] == code
    assert not code or all_of(folder) == before


def test_a_share_that_is_not_mounted_is_no_place(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-05: on a host that mounts, a shared folder that lies on its own disk is a bare one."""
    monkeypatch.setattr("gpuaas.paths.Tree.whole_host", True)
    with opened(root) as tree:
        volume = volumes.volume_of(VOLUME, SHARED)
        with pytest.raises(Refusal, match="no share is mounted there") as refusal:
            create_volume.reach(tree, volume)
        assert refusal.value.code == "volume_missing"
        # Mounted is what it would be on, and its folder is not there.
        monkeypatch.setattr(create_volume, "_is_at_or_below", lambda path, point: True)
        with pytest.raises(Refusal, match="is not there: is its share mounted") as refusal:
            create_volume.reach(tree, volume)
        assert refusal.value.code == "volume_missing"


def test_it_may_come_a_moment_later(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-09: a disk that its host has not found yet is waited for, and not for ever."""
    folder, away = root / f"srv/volumes/{VOLUME}", root / "srv/away"
    os.rename(folder, away)
    monkeypatch.setattr("gpuaas.paths.Tree.whole_host", True)
    monkeypatch.setattr(create_volume, "PATIENCE_SECONDS", 0.3)
    waits: list[float] = []
    with opened(root) as tree:
        volume = volumes.volume_of(VOLUME, DIRECTORY)
        monkeypatch.setattr("time.sleep", waits.append)
        monkeypatch.setattr("time.monotonic", iter([0.0, 0.1, 0.2, 0.3]).__next__)
        with pytest.raises(Refusal, match="never made anew"):
            create_volume.put_home(tree, volume, had()["record"], make=False)
        assert len(waits) == 2 and not folder.exists()
        monkeypatch.setattr("time.sleep", lambda _: os.rename(away, folder))
        monkeypatch.setattr("time.monotonic", iter([0.0, 0.1, 0.2]).__next__)
        create_volume.put_home(tree, volume, had()["record"], make=False)
    assert (folder / "data/log").read_text() == "one"


def test_what_fails_of_one_harms_no_other(root: Path) -> None:
    """STO-03: of several, what can be had is had, and the first reason is told with its name."""
    blocked = root / f"srv/volumes/{OTHER}"
    blocked.mkdir(parents=True)
    (blocked / "precious").write_text("x")
    wanted = (had(id=OTHER, name="b", mountPath="/mnt/b"), had())
    code, said = refused(attached, root, *wanted)
    assert code == "volume_not_blank" and said.startswith("b: ")
    assert attachments.read_attached(Probes(str(root))) == {f"{ID}/data": f"{VOLUME} rw at /data"}


SHARING = [
    # access and mode of who has it, of who comes, and whether both may
    ("single_writer", "rw", "single_writer", "ro", False),
    ("single_writer", "ro", "single_writer", "ro", False),
    ("multi_reader", "rw", "multi_reader", "rw", False),
    ("multi_reader", "rw", "multi_reader", "ro", True),
    ("multi_reader", "ro", "multi_reader", "rw", True),
    ("multi_writer", "rw", "multi_writer", "rw", True),
    ("multi_writer", "rw", "multi_reader", "rw", False),
    ("multi_writer", "rw", "single_writer", "rw", False),
    ("single_writer", "rw", "multi_writer", "rw", False),
]


@pytest.mark.parametrize(("access", "mode", "asked", "how", "may"), SHARING)
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_host_knows_who_may_have_it(
    tmp_path: Path, access: str, mode: str, asked: str, how: str, *, may: bool, elsewhere: bool
) -> None:
    """STO-04, F-STO-04: two slices of one host, and two hosts, whatever the planner believes."""
    one, two = host(tmp_path / "one", "1" * 32), host(tmp_path / "two", "2" * 32)
    (tmp_path / "share").mkdir()
    for root in (one, two):
        (root / "srv").mkdir()
    # A folder of one is that of the other, as it is on hosts that mount one share.
    attached(one, had(backend=SHARED, access=access, mode=mode))
    second = one
    if elsewhere:
        os.rename(one / "srv/volumes", two / "srv/volumes")
        second = two
    wanted = had(backend=SHARED, access=asked, mode=how, make=False)
    code, said = refused(attached, second, wanted, id=NEXT, login=NEXT_LOGIN)
    assert code == ("" if may else "volume_fenced")
    assert may or f"{ID} has it {mode} on machine {'1' * 32}" in said
    assert (second / f"gpuaas/{NEXT}/data").exists() is may


def holders(root: Path) -> list[str]:
    with opened(root) as tree:
        return volume_fences.names(tree, f"{PLACE}/{VOLUME}")


def test_one_allocation_on_two_hosts_is_two(tmp_path: Path) -> None:
    """F-STO-04: A moved away from a host that does not answer has not let go there."""
    one, two = host(tmp_path / "one", "1" * 32), host(tmp_path / "two", "2" * 32)
    attached(one, had(backend=SHARED))
    (two / "srv").mkdir()
    os.rename(one / "srv/volumes", two / "srv/volumes")
    assert refused(attached, two, had(backend=SHARED, make=False))[0] == "volume_fenced"
    detached(two, backend=SHARED)
    assert holders(two) == [f"{ID}.{'1' * 32}"], "only who has it can let go of it"


def test_a_disk_of_its_own_is_had_by_its_host(root: Path, data: Path) -> None:
    """A host that was installed anew has another number, and the disk that it had."""
    (root / "etc/machine-id").write_text("2" * 32)
    attached(root, had(make=False))
    assert holders(root) == [f"{ID}.{'2' * 32}"]


def test_who_is_cut_off_counts_no_more_and_comes_back_no_more(root: Path, data: Path) -> None:
    """F-STO-04: by the word of an operator; the file that its host asks for at boot is gone."""
    attached(root, had(make=False, fenced=[ID]), id=NEXT, login=NEXT_LOGIN)
    assert [name.split(".")[0] for name in holders(root)] == [NEXT]
    assert refused(attached, root, had(make=False, fenced=[ID]))[0] == "volume_fenced"


@pytest.mark.parametrize("machine", ["1" * 32, "2" * 32])
@pytest.mark.parametrize("trace", ["", "etc/gpuaas/allocations", "gpuaas"])
def test_who_let_go_while_the_disk_was_away_bars_nobody(
    root: Path, data: Path, trace: str, machine: str
) -> None:
    """F-STO-08: what lies on its own disk a host knows who has.

    As long as anything of it is there nobody else gets it, and nothing is wiped; nor where another
    machine had it, which may have it still if the place is a share that nobody has called so.
    """
    barred = bool(trace) or machine != "1" * 32
    os.rename(root / "srv/volumes", root / "srv/away")
    detached(root)
    os.rename(root / "srv/away", root / "srv/volumes")
    (root / "etc/machine-id").write_text(machine)
    if trace:
        (root / trace).mkdir(parents=True, exist_ok=True)
        (root / trace / (ID if trace == "gpuaas" else f"{ID}.json")).touch()
    wanted = had(make=False)
    code, _ = refused(attached, root, wanted, id=NEXT, login=NEXT_LOGIN)
    assert code == ("volume_fenced" if barred else "")
    assert [name.split(".")[0] for name in holders(root)] == [ID if barred else NEXT]
    if not barred:
        detached(root, id=NEXT, login=NEXT_LOGIN)
    (root / f"srv/volumes/{VOLUME}/holders/{ID}.{'1' * 32}").write_text(
        json.dumps(
            volume_fences.Holder(ID, LOGIN, "1" * 32, "rw", "/data", "single_writer")._asdict()
        )
    )
    assert refused(wiped, root)[0] == ("storage_in_use" if barred else "")


def test_who_has_it_elsewhere_is_asked_there(root: Path) -> None:
    """F-STO-04: of a folder that hosts share nobody tells for another one that it was left."""
    attached(root, had(backend=SHARED))
    os.rename(root / "gpuaas", root / "away")
    (root / "etc/machine-id").write_text("2" * 32)
    wanted = had(make=False, backend=SHARED)
    assert refused(attached, root, wanted, id=NEXT, login=NEXT_LOGIN)[0] == "volume_fenced"
    assert refused(wiped, root, SHARED)[0] == "storage_in_use"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"allocation": "x"}'])
def test_who_cannot_be_read_is_somebody(root: Path, data: Path, text: str) -> None:
    """F-STO-04, F-STO-07: unknown is not nobody, neither for a writer nor for a wipe."""
    (root / f"srv/volumes/{VOLUME}/holders" / holders(root)[0]).write_text(text)
    wanted = had(make=False, access="multi_writer")
    assert refused(attached, root, wanted, id=NEXT, login=NEXT_LOGIN)[0] == "volume_fenced"
    assert refused(wiped, root)[0] == "volume_fenced" and (data / "log").exists()


def test_who_has_it_is_asked_for_by_one_at_a_time(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-04: another host is at work on it, and its end is waited for, not for ever."""
    monkeypatch.setattr(volume_fences, "PATIENCE_SECONDS", 0.1)
    with opened(root) as tree, volume_fences.alone(tree, f"{PLACE}/{VOLUME}"):
        code, said = refused(attached, root, had(make=False))
    assert code == "volume_fenced" and "another host is at work" in said


def test_its_word_is_written_by_one_at_a_time(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of hosts that all get it at one time none takes away what another is just writing."""
    monkeypatch.setattr(volume_fences, "PATIENCE_SECONDS", 0.1)
    folder = root / f"srv/volumes/{VOLUME}"
    (folder / ".volume.json.gpuaas-new").write_text("of another host")
    before, record = all_of(folder), had()["record"].replace('"s"', '"t"')
    with opened(root) as tree, volume_fences.alone(tree, f"{PLACE}/{VOLUME}"):
        volume = volumes.volume_of(VOLUME, SHARED)
        code, _ = refused(create_volume.put_home, tree, volume, record, make=True)
    assert code == "volume_fenced" and all_of(folder) == before


def test_it_is_wiped_when_nobody_has_it(root: Path, data: Path) -> None:
    """STO-07, F-STO-07: the holders are named; then all of it goes, and nothing beside it."""
    attached(root, had(id=OTHER, name="other", mountPath="/mnt"), id=NEXT, login=NEXT_LOGIN)
    code, said = refused(wiped, root)
    assert code == "storage_in_use" and ID in said and (data / "log").exists()
    detached(root)
    wiped(root)
    assert not (root / f"srv/volumes/{VOLUME}").exists() and not (root / RECORD[1:]).exists()
    assert (root / f"srv/volumes/{OTHER}/data").exists()
    wiped(root)


def test_what_is_not_there_is_not_wiped(root: Path, data: Path) -> None:
    """F-STO-01: a disk that is away keeps its data, so nobody says that it was wiped."""
    detached(root)
    os.rename(root / "srv/volumes", root / "srv/away")
    assert refused(wiped, root)[0] == "volume_missing"
    assert (root / RECORD[1:]).exists()


def test_what_is_something_else_is_not_wiped(root: Path, data: Path) -> None:
    detached(root)
    (root / f"srv/volumes/{VOLUME}/volume.json").write_text(json.dumps({"id": OTHER}))
    assert refused(wiped, root)[0] == "volume_not_blank"
    assert (root / f"srv/volumes/{VOLUME}/data/log").exists()


@pytest.mark.parametrize("left", [4, 3, 2, 1])
def test_a_wipe_that_was_killed_is_finished(root: Path, data: Path, left: int) -> None:
    """Whatever of it is gone by then, of its data, its holders, the host's word and its own."""
    detached(root)
    folder = root / f"srv/volumes/{VOLUME}"
    (folder / "data/log").unlink()
    (folder / "data").rmdir()
    if left < 4:
        (folder / "holders").rmdir()
    if left < 3:
        (root / RECORD[1:]).unlink()
    if left < 2:
        (folder / "volume.json").unlink()
    wiped(root)
    assert not (root / f"srv/volumes/{VOLUME}").exists() and not (root / RECORD[1:]).exists()


def test_what_was_wiped_elsewhere_is_forgotten(root: Path, data: Path) -> None:
    """STO-07: its word alone goes, and only where there is nothing that it could be the word of."""
    attached(root, had(id=OTHER, name="other", mountPath="/mnt"), id=NEXT, login=NEXT_LOGIN)
    before = all_of(root)
    assert refused(forgotten, root, SHARED)[0] == "volume_not_blank" and all_of(root) == before
    os.rename(root / f"srv/volumes/{VOLUME}", root / "away")
    assert forgotten(root, SHARED) is True and not (root / RECORD[1:]).exists()
    assert forgotten(root, SHARED) is False
    assert (root / f"srv/volumes/{OTHER}/data").exists()


UNSAFE: list[tuple[dict[str, Any], str]] = [
    ({"id": "../../etc/a"}, "item_invalid"),
    ({"name": "../x"}, "item_invalid"),
    ({"mountPath": "/data/../etc"}, "path_unsafe"),
    ({"mountPath": "/home/x"}, "path_unsafe"),
    ({"mountPath": "/data/.x"}, "path_unsafe"),
    ({"backend": {}}, "item_invalid"),
    ({"backend": {"directory": {"path": "/etc/x", "shared": False}}}, "path_unsafe"),
    ({"backend": {"directory": {"path": "/gpuaas", "shared": False}}}, "path_unsafe"),
    ({"backend": {"directory": {"path": "/tmp/x", "shared": False}}}, "path_unsafe"),
    ({"backend": {"directory": {"path": "/srv/../etc", "shared": False}}}, "path_unsafe"),
    ({"backend": {"directory": {"path": "/srv/a b", "shared": False}}}, "path_unsafe"),
    ({"backend": {"directory": {"path": "srv", "shared": False}}}, "path_unsafe"),
    ({"backend": {"directory": {"path": "/srv"}}}, "item_invalid"),
    ({"backend": {"loop": {"path": "/srv", "filesystem": "ext4"}}}, "storage_backend_unfit"),
    ({"backend": {"loop": {"path": "/srv", "filesystem": "vfat"}}}, "item_invalid"),
    ({"mode": "rwx"}, "item_invalid"),
    ({"access": "any"}, "item_invalid"),
    ({"sizeGiB": 0}, "item_invalid"),
    ({"record": "{}"}, "item_invalid"),
    ({"files": [{"path": "/etc/passwd", "mode": "0644", "content": ""}]}, "path_unsafe"),
]


@pytest.mark.parametrize(("changes", "code"), UNSAFE, ids=str)
def test_a_host_judges_what_it_is_asked(root: Path, changes: dict[str, Any], code: str) -> None:
    """SEC-04: names and places are data, and no way to anywhere else."""
    before = all_of(root)
    assert refused(attached, root, had(**changes))[0] == code
    assert all_of(root) == before


NFS = {"server": "nas", "export": "/export", "options": ["hard", "vers=4.2"]}


@pytest.mark.parametrize(
    ("changes", "sound"),
    [
        ({}, True),
        ({"server": "nas -o suid"}, False),
        ({"export": "/x/../y"}, False),
        ({"options": ["suid"]}, False),
        ({"options": ["dev"]}, False),
        ({"options": ["nolock"]}, False),
        ({"options": ["hard,suid"]}, False),
    ],
)
def test_a_share_is_mounted_as_all_volumes_are(changes: dict[str, Any], *, sound: bool) -> None:
    """No option takes nodev or nosuid away, nor the lock by which hosts agree who has it."""
    code, _ = refused(volumes.volume_of, VOLUME, {"nfs": {**NFS, **changes}})
    assert code == ("" if sound else "item_invalid" if "export" not in changes else "path_unsafe")


def test_a_dry_run_does_nothing(root: Path) -> None:
    before = all_of(root)
    with opened(root, dry=True) as tree:
        attach.run(tree, {"id": ID, "login": LOGIN, "uid": 0, "gid": 0, "volumes": [had()]})
        assert tree.changed
    assert all_of(root) == before
