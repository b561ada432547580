"""Files are written whole or not at all, and nothing is left beside them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from reconciler.atomic_file import partial_file, write_file
from tests.test_architecture import MODULES, word

BY_HAND = re.compile(r"\bmkstemp\(|\bos\.replace\(")
OF_OTHER_SORTS = {
    "atomic_file": "here it is",
    "specs/edit/edit": "looks for another's change last of all, and puts its file in place itself",
    "cli/crash": "a new file for a person, under a name that nobody waits for",
}


def test_a_file_is_replaced_by_one_of_the_mode_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    path.write_text("before")
    path.chmod(0o600)
    write_file(path, b"after", mode=0o644, durable=True)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("after", 0o644)
    write_file(path, b"own", durable=False)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("own", 0o600)
    assert os.listdir(tmp_path) == ["seen"]


def test_what_fails_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(path, b"after", durable=True)
    assert os.listdir(tmp_path) == ["seen"]


def test_it_lies_beside_until_somebody_puts_it_in_place(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    path.write_text("before")
    path.chmod(0o640)
    names = (".", ".new")
    with partial_file(path, b"after", mode=path.stat(), durable=True, name=names) as partial:
        assert (partial.read_text(), path.read_text()) == ("after", "before")
        assert (partial.parent, partial.name[0], partial.suffix) == (tmp_path, ".", ".new")
        assert stat.S_IMODE(partial.stat().st_mode) == 0o640
    assert (os.listdir(tmp_path), path.read_text()) == (["seen"], "before")


def test_content_is_on_disk_before_it_bears_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (done.append("sync"), sync(number)))
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("name"), replace(old, new)))
    write_file(tmp_path / "a", b"", durable=True)
    write_file(tmp_path / "b", b"", durable=False)
    assert done == ["sync", "name", "name"]


def test_nobody_writes_so_by_hand() -> None:
    found = {word(path) for path in MODULES if BY_HAND.search(path.read_text(encoding="utf-8"))}
    assert found == OF_OTHER_SORTS.keys()
