"""Path facts: written here as hosts tell them, and read back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpuaas.probes import path_fact

from reconciler.model.canonical import text_digest
from reconciler.model.host.facts.path_fact import (
    PathOwner,
    file_fact,
    folder_fact,
    is_folder,
    is_same_file_otherwise,
    link_fact,
    owner_in,
)


def test_they_are_what_a_host_tells(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "file").write_text("text\n")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("a\\x2db")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        shown = {name: path_fact(folder, name) for name in ("folder", "file", "link")}
    finally:
        os.close(folder)
    assert shown == {
        "folder": folder_fact("0700"),
        "file": file_fact("0640", text_digest("text\n")),
        "link": link_fact("a\\x2db"),
    }


@pytest.mark.parametrize(
    ("fact", "owner"),
    [
        (folder_fact("0700", 20000, 20001), PathOwner(uid=20000, gid=20001)),
        (file_fact("0640", "sha256:1", 20001), PathOwner(uid=0, gid=20001)),
        (folder_fact("0700"), None),
        ("", None),
    ],
)
def test_an_owner_is_read_back(fact: str, owner: PathOwner | None) -> None:
    assert owner_in(fact) == owner
    assert is_folder(fact) == fact.startswith("dir ")


def test_files_of_one_mode_differ_by_what_is_in_them() -> None:
    one = file_fact("0640", "sha256:1")
    assert is_same_file_otherwise(one, file_fact("0640", "sha256:2"))
    assert not is_same_file_otherwise(one, file_fact("0600", "sha256:1"))
    assert not is_same_file_otherwise(folder_fact("0640"), folder_fact("0640"))
