"""Folders of tenants are removed with all that they hold, however it was left."""

from __future__ import annotations

import os
from pathlib import Path

from gpuaas.paths import Tree
from gpuaas.wipe import remove_folder


def test_nobody_holds_up_his_end_by_a_nest_of_folders(tmp_path: Path) -> None:
    """ACC-11: `mkdir -p` deeper than any path, with files on the way and none of them readable."""
    home = tmp_path / "home"
    home.mkdir()
    at = os.open(home, os.O_RDONLY)
    for number in range(3000):
        os.mkdir("d", dir_fd=at)
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, 0, dir_fd=at))
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        remove_folder(Tree(root, dry=True), "/home")
        assert (home / "d/d/d/f3").exists()
        remove_folder(Tree(root, dry=False), "/home")
    finally:
        os.close(root)
    assert os.listdir(tmp_path) == []
