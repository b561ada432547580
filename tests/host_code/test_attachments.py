"""Who has which volume, as the table of mounts shows it: as is asked, or in words what is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gpuaas import attachments, folder_usage, stale_mounts
from gpuaas.mounts import Mount
from gpuaas.probes import ProbeError, Probes

from tests.host_code.volume_host import ID, LOGIN, OTHER, VOLUME

VIEWS = "/var/lib/gpuaas/instances"
SAFE = ("rw", "nosuid", "nodev", "relatime")
READ = ("ro", "nosuid", "nodev", "relatime")
REAL, VIEW = f"/gpuaas/{ID}/data", f"{VIEWS}/data/{LOGIN}/set"


def mount(point: str, root: str, flags: tuple[str, ...] = SAFE, device: str = "8:1") -> Mount:
    return Mount(point, device, root, "ext4", ("rw",), flags)


def folder(point: str, flags: tuple[str, ...] = SAFE, id: str = VOLUME) -> Mount:
    return mount(point, f"/srv/{id}/data", flags)


DISK = mount(f"/var/lib/gpuaas/volumes/{VOLUME}", "/", device="7:0")
ELSE = mount("/mnt/disk", "/", device="7:1")

TABLES: list[tuple[list[Mount], str]] = [
    ([folder(REAL), folder(VIEW)], f"{VOLUME} rw at /data/set"),
    ([folder(REAL, READ), folder(VIEW, READ)], f"{VOLUME} ro at /data/set"),
    ([folder(REAL), folder(f"{VIEWS}/workspace/{LOGIN}")], f"{VOLUME} rw at /workspace"),
    (
        [DISK, mount(REAL, "/data", device="7:0"), mount(VIEW, "/data", device="7:0")],
        f"{VOLUME} rw at /data/set",
    ),
    # The share of a server, from which each volume is a folder.
    (
        [
            mount(REAL, f"/{VOLUME}/data", device="0:50"),
            mount(VIEW, f"/{VOLUME}/data", device="0:50"),
        ],
        f"{VOLUME} rw at /data/set",
    ),
    ([folder(REAL)], f"wrong: {VOLUME} rw is seen nowhere"),
    ([folder(REAL), folder(VIEW, id=OTHER)], f"wrong: {VOLUME} rw is seen nowhere"),
    (
        [folder(REAL), folder(f"{VIEWS}/data/train-b-bcde/set")],
        f"wrong: {VOLUME} rw is seen nowhere",
    ),
    ([folder(REAL, READ), folder(VIEW)], f"wrong: {VOLUME} ro is seen rw at /data/set"),
    (
        [folder(REAL), folder(VIEW, ("rw", "nosuid"))],
        f"wrong: {VOLUME} rw is seen rw without nodev at /data/set",
    ),
    (
        [folder(REAL, ("rw",)), folder(VIEW, ("rw",))],
        f"{VOLUME} rw without nodev and nosuid at /data/set",
    ),
    ([mount(REAL, "/srv"), mount(VIEW, "/srv")], "wrong: /srv is no volume"),
    ([ELSE, mount(REAL, "/data", device="7:1")], "wrong: /data is no volume"),
    ([mount(REAL, "/x/y/data\n"), folder(VIEW)], "wrong: /x/y/data\\n is no volume"),
    # What is mounted last is what is seen.
    ([folder(REAL), folder(VIEW), folder(VIEW, id=OTHER)], f"wrong: {VOLUME} rw is seen nowhere"),
    ([folder(VIEW)], ""),
]


@pytest.mark.parametrize(("table", "told"), TABLES)
def test_a_host_tells_what_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: list[Mount], told: str
) -> None:
    """STO-11, RST-06, F-STO-05: both mounts, with their data and rights; never what was asked."""
    descriptors = tmp_path / "etc/gpuaas/allocations"
    descriptors.mkdir(parents=True)
    (descriptors / f"{ID}.json").write_text(f'{{"login": "{LOGIN}"}}')
    monkeypatch.setattr(attachments, "mounts", lambda: table)
    monkeypatch.setattr(Probes, "whole_host", True)
    found = attachments.read_attached(Probes(str(tmp_path)))
    assert found == ({f"{ID}/data": told} if told else {})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"login": 1}', None])
def test_whose_it_is_must_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """A mount for an allocation that the host does not name is seen by nobody."""
    if text is not None:
        (tmp_path / "etc/gpuaas/allocations").mkdir(parents=True)
        (tmp_path / f"etc/gpuaas/allocations/{ID}.json").write_text(text)
    monkeypatch.setattr(attachments, "mounts", lambda: [folder(REAL), folder(VIEW)])
    monkeypatch.setattr(Probes, "whole_host", True)
    found = attachments.read_attached(Probes(str(tmp_path)))
    assert found == {f"{ID}/data": f"wrong: {VOLUME} rw is seen nowhere"}


def test_what_does_not_answer_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-06: however many volumes lie there; others are told of, and so is the host."""
    place = {"directory": {"path": "/srv/dead", "shared": True}}
    alive = {"directory": {"path": "/srv/alive", "shared": False}}
    records = tmp_path / "etc/gpuaas/volumes"
    records.mkdir(parents=True)
    for id, backend in (("dead222222", place), ("dead333333", place), (VOLUME, alive)):
        (records / f"{id}.json").write_text(json.dumps({"id": id, "backend": backend}))
    asked: list[str] = []

    def room_of(path: str) -> stale_mounts.Room:
        asked.append(path)
        if "/dead" in path:
            raise ProbeError("it does not answer")
        return stale_mounts.Room(2 << 20, 1 << 20)

    table = [mount(f"{tmp_path}/srv/dead", "/", device="0:50"), mount("/", "/"), ELSE]
    monkeypatch.setattr(stale_mounts, "mounts", lambda: table)
    monkeypatch.setattr(stale_mounts, "room_of", room_of)
    probes = Probes(str(tmp_path))
    assert attachments.read_volumes(probes) == {VOLUME: {"sizeMiB": 2}}
    assert len(asked) == 2
    texts = attachments.read_volume_texts(probes)
    assert len(asked) == 4 and [id for id in texts if "dead" in id] == ["dead222222", "dead333333"]
    assert all(json.loads(texts[id])["holders"] is None for id in texts)


def laid(tmp_path: Path, backend: str) -> Path:
    """A record of a volume, and its data: 3 MiB of files."""
    records = tmp_path / "etc/gpuaas/volumes"
    records.mkdir(parents=True)
    path = {"path": "/srv/v", "shared": False, "filesystem": "ext4"}
    (records / f"{VOLUME}.json").write_text(json.dumps({"id": VOLUME, "backend": {backend: path}}))
    where = {"directory": f"srv/v/{VOLUME}/data", "loop": f"var/lib/gpuaas/volumes/{VOLUME}/data"}
    data = tmp_path / where[backend]
    (data / "deep" / "er").mkdir(parents=True)
    (data / "deep" / "er" / "one").write_bytes(os.urandom(2 << 20))
    (data / "two").write_bytes(os.urandom(1 << 20))
    os.link(data / "two", data / "twice")
    (data / "link").symlink_to("/usr")
    return data


def test_a_directory_uses_what_its_files_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-23: not what the disk that it lies on has; linked twice is there once."""
    monkeypatch.setattr(stale_mounts.Rooms, "is_distant", lambda rooms, path: False)
    data = laid(tmp_path, "directory")
    told = attachments.read_volumes(Probes(str(tmp_path)))[VOLUME]
    assert 3 <= told["usedMiB"] <= 4
    assert told["sizeMiB"] == stale_mounts.room_of(str(data)).total >> 20  # type: ignore[union-attr]


def test_a_disk_of_its_own_is_asked_for_its_use(tmp_path: Path) -> None:
    data = laid(tmp_path, "loop")
    told = attachments.read_volumes(Probes(str(tmp_path)))[VOLUME]
    room = stale_mounts.room_of(str(data))
    assert room is not None
    assert abs(told["usedMiB"] - (room.used >> 20)) < 64


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_SECONDS", "DEEPEST"])
def test_what_is_too_much_to_count_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """F-REAL-23: a look costs no more for whatever somebody has written there."""
    laid(tmp_path, "directory")
    monkeypatch.setattr(folder_usage, limit, {"MOST_ENTRIES": 3, "MOST_SECONDS": 0}.get(limit, 0))
    told = attachments.read_volumes(Probes(str(tmp_path)))[VOLUME]
    assert set(told) == {"sizeMiB"}


def test_a_share_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-STO-06 F-REAL-23: whoever counts there waits for its server."""
    laid(tmp_path, "directory")
    monkeypatch.setattr(stale_mounts.Rooms, "is_distant", lambda rooms, path: True)
    told = attachments.read_volumes(Probes(str(tmp_path)))[VOLUME]
    assert set(told) == {"sizeMiB"}
