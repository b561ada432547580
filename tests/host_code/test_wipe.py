"""Folders of tenants are removed with all that they hold, however it was left."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest
from gpuaas import wipe
from gpuaas.paths import Refusal, Tree
from gpuaas.wipe import remove_folder

from tests import privileges


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


WRITES = """
import os
os.chdir("open")
held = [os.open(".", os.O_RDONLY), os.open("nest", os.O_RDONLY)]
n = 0
while True:
    n += 1
    for place in held:
        try:
            os.mkdir(f"d{n}", dir_fd=place)
            os.close(os.open(f"f{n}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=place))
            os.chmod(f"d{n}", 0o777, dir_fd=place)
        except OSError:
            continue
    if n == 50:
        print("busy", flush=True)
"""


@privileges.needs(privileges.giving_away)
def test_a_neighbour_who_still_writes_there_holds_up_nothing(tmp_path: Path) -> None:
    """ACC-11: folders are taken before they are emptied; the neighbour goes on, with nothing."""
    nest = tmp_path / "home/open/nest"
    nest.mkdir(parents=True)
    for place in (tmp_path / "home", nest.parent, nest):
        place.chmod(0o777)
        os.chown(place, privileges.FOREIGN, privileges.FOREIGN)
    for place in (tmp_path, *list(tmp_path.parents)[:-2]):
        place.chmod(0o755)
    start = ("setpriv", f"--reuid={privileges.FOREIGN + 1}", "--clear-groups")
    with subprocess.Popen(
        [*start, "/usr/bin/python3", "-c", WRITES], cwd=tmp_path / "home", stdout=subprocess.PIPE
    ) as neighbour:
        try:
            assert neighbour.stdout is not None and neighbour.stdout.readline() == b"busy\n"
            remove_folder(Tree(os.open(tmp_path, os.O_RDONLY), dry=False), "/home")
            assert os.listdir(tmp_path) == []
            time.sleep(0.1)
            assert neighbour.poll() is None, "it is not ours to end"
        finally:
            neighbour.kill()


@privileges.needs(privileges.giving_away)
def test_a_folder_is_roots_before_it_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home/open").mkdir(parents=True)
    (tmp_path / "home/open").chmod(0o777)
    os.chown(tmp_path / "home/open", privileges.FOREIGN, privileges.FOREIGN)
    seen, listdir = [], os.listdir

    def watched(place: int) -> list[str]:
        status = os.fstat(place)
        seen.append((status.st_uid, oct(stat.S_IMODE(status.st_mode))))
        return listdir(place)

    monkeypatch.setattr(os, "listdir", watched)
    remove_folder(Tree(os.open(tmp_path, os.O_RDONLY), dry=False), "/home")
    assert set(seen[1:]) == {(0, "0o700")} and len(seen) > 2


def test_what_is_busy_without_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And said, with what it is."""
    (tmp_path / "home/busy/more").mkdir(parents=True)
    monkeypatch.setattr(wipe, "MAX_BUSY", 5)
    remove = os.rmdir

    def rmdir(name: str, **at: int) -> None:
        if name == "more":
            raise OSError(39, "Directory not empty", name)
        remove(name, **at)

    monkeypatch.setattr(os, "rmdir", rmdir)
    with pytest.raises(Refusal, match="not empty"):
        remove_folder(Tree(os.open(tmp_path, os.O_RDONLY), dry=False), "/home")
