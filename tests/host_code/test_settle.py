"""Settling, on files: all is put back as it was, also what resists at first, and only once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpuaas import saved_files, settle

from reconciler.hosts.prepare_commit import settle as settle_hosts
from tests.harness.directory_host import options, tree


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's disk: what is saved lies beside what is changed."""
    folder = tmp_path / "lib/gpuaas/prepare"
    folder.parent.mkdir(parents=True)
    monkeypatch.setattr(settle, "FOLDER", str(folder))
    monkeypatch.setattr(settle, "MANIFEST", f"{folder}/manifest.json")
    monkeypatch.setattr(settle, "LOCK", str(tmp_path / "lock"))
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


def changed(place: Path, actions: list[str] | None = None) -> dict[str, str]:
    """One of each sort, saved and then changed; what it was before."""
    (place / "file").write_text("before")
    (place / "file").chmod(0o640)
    (place / "folder").mkdir(mode=0o755)
    (place / "link").symlink_to("before")
    was = tree(place)
    names = ("file", "folder", "link", "new/deep/file")
    saved_files.save([str(place / name) for name in names], actions or [])
    (place / "file").write_text("after")
    (place / "file").chmod(0o644)
    (place / "folder").chmod(0o700)
    (place / "link").unlink()
    (place / "link").symlink_to("after")
    (place / "new/deep").mkdir(parents=True)
    (place / "new/deep/file").write_text("after")
    return was


def test_all_is_put_back_as_it_was(place: Path) -> None:
    was = changed(place)
    assert settle.status() == "pending"
    assert settle.restore() == "restored"
    assert tree(place) == was
    assert (settle.status(), settle.restore()) == ("none", "none")
    assert not Path(settle.FOLDER).parent.exists(), "what was made for saving goes too"


def test_what_is_kept_stays_and_is_kept_once(place: Path) -> None:
    changed(place)
    now = tree(place)
    assert settle.keep() == "kept"
    assert settle.restore() == "none"
    assert tree(place) == now
    with pytest.raises(settle.SettleError, match="put back before"):
        settle.keep()


def test_what_others_put_into_a_new_folder_stays(place: Path) -> None:
    changed(place)
    (place / "new/theirs").write_text("theirs")
    assert settle.restore() == "restored"
    assert [path.name for path in (place / "new").iterdir()] == ["theirs"]


def test_a_file_that_resists_is_named_and_all_others_are_put_back(place: Path) -> None:
    """What is saved stays, so that it can be tried again."""
    changed(place)
    (place / "link").unlink()
    (place / "file").unlink()
    (place / "file").mkdir()
    with pytest.raises(settle.SettleError, match="disk/file: "):
        settle.restore()
    assert not (place / "new").exists()
    assert settle.status() == "pending"
    (place / "file").rmdir()
    assert settle.restore() == "restored"
    assert (place / "file").read_text() == "before"


def test_nothing_is_done_by_what_others_could_have_written(place: Path) -> None:
    """A manifest says which files become what: only root's own is gone by."""
    changed(place)
    now = tree(place)
    Path(settle.MANIFEST).chmod(0o666)
    with pytest.raises(settle.SettleError, match="not root's own"):
        settle.restore()
    assert tree(place) == now


def test_a_manifest_is_whole_or_not_there(place: Path) -> None:
    (place / "file").write_text("before")
    saved_files.save([str(place / "file")], ["sshd"])
    manifest: dict[str, Any] = json.loads(Path(settle.MANIFEST).read_text())
    assert manifest["actions"] == ["sshd"]
    assert [entry["was"] for entry in manifest["entries"]] == ["file"]
    names = {path.name for path in Path(settle.FOLDER).iterdir()}
    assert names == {"manifest.json", "old-0", "settle.py"}
    source = Path(settle.FOLDER, "settle.py").read_text()
    assert "from ." not in source, "it runs alone, from a timer"


def test_actions_come_in_the_order_that_hosts_need(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert next(iter(settle.ACTIONS)) == "systemd", "units are read before services are told"
    monkeypatch.setattr(settle, "ACTIONS", {"a": ("/bin/false",), "b": ("/bin/true",)})
    assert settle.take_up(["b", "a"]) == ["false ended with 1: "]


def test_no_host_is_no_work(tmp_path: Path) -> None:
    assert settle_hosts([], (), options(tmp_path)) == {}
