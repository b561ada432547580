"""What goes between being listed and being looked at is passed over, and hides nothing else."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuaas import ipc, platform, platform_state, uid_conflicts
from gpuaas.files import names_of
from gpuaas.folder_usage import Counting
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import GONE, Probes, unless_gone

from tests import privileges

LOOKS: dict[str, Callable[[Path], Any]] = {
    "names of an owner": lambda root: names_of(tree(root), "/home", os.geteuid()),
    "sizes": lambda root: platform_state.size_of(
        str(root / "home"), time.monotonic() + 9, Probes(str(root))
    ),
    "usage": lambda root: Counting().used(str(root / "home")),
    "owners": lambda root: list(uid_conflicts.owners(Probes(str(root)))),
    "programs": lambda root: platform.read_setuid(Probes(str(root))),
}


def tree(root: Path) -> Tree:
    return Tree(os.open(root, os.O_RDONLY), dry=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for place in ("home", "usr/bin"):
        (tmp_path / place).mkdir(parents=True)
        for name in ("stays", "goes"):
            (tmp_path / place / name).write_bytes(b"x" * 4096)
            (tmp_path / place / name).chmod(0o4755)
        for name in ("folder-goes", "folder-stays"):
            (tmp_path / place / name).mkdir()
    return tmp_path


def forget(place: Any) -> None:
    """As a neighbour does in the moment after the listing."""
    folder = place if isinstance(place, int) else os.open(place, os.O_RDONLY)
    for name, remove in (("goes", os.unlink), ("folder-goes", os.rmdir)):
        try:
            remove(name, dir_fd=folder)  # type: ignore[operator]
        except FileNotFoundError:
            continue


class Listed(list[Any]):
    """Of what `os.scandir` gives, which is also a context."""

    def __enter__(self) -> Listed:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("look", LOOKS)
def test_what_goes_meanwhile_is_passed_over(
    root: Path, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_names, scan = os.listdir, os.scandir

    def listdir(place: Any = ".") -> list[str]:
        names = list_names(place)
        forget(place)
        return names

    def scandir(place: Any = ".") -> Listed:
        entries = Listed(scan(place))
        forget(place)
        return entries

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(os, "scandir", scandir)
    found = LOOKS[look](root)
    monkeypatch.undo()
    assert not (root / "home/goes").exists() or not (root / "usr/bin/goes").exists()
    assert found == LOOKS[look](root) and found


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_what_cannot_be_looked_at_is_not_passed_over(number: int) -> None:
    with pytest.raises(OSError, match=str(number)), unless_gone():
        raise OSError(number, "no look")


@pytest.mark.parametrize("number", sorted(GONE))
def test_the_kernels_words_for_what_is_gone(number: int) -> None:
    with unless_gone():
        raise OSError(number, "gone")


@privileges.needs(privileges.others)
def test_an_object_that_goes_by_itself_does_not_fail_the_removal_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its owner's last process may remove it in the same moment."""
    uid = privileges.FOREIGN
    code = (
        f"import os; os.setuid({uid}); import ctypes; c = ctypes.CDLL(None)\n"
        "for _ in range(3): print(c.semget(0, 1, 0o1600))"
    )
    made = subprocess.run(
        ["/usr/bin/python3", "-c", code], capture_output=True, text=True, check=True
    )
    first, *_ = made.stdout.split()
    ask = ipc.system_v

    def listing(root: str, of: int) -> Iterator[tuple[str, str, str]]:
        found = list(ask(root, of))
        subprocess.run(["ipcrm", "-s", first], check=False, capture_output=True)
        return iter(found)

    monkeypatch.setattr(ipc, "system_v", listing)
    monkeypatch.setattr(ipc, "AT_ONCE", 2)
    ipc.remove_all(Tree(os.open("/", os.O_RDONLY), dry=False), uid)
    assert list(ask("/", uid)) == []


def test_an_object_that_stays_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipc, "system_v", lambda root, uid: iter([("sem", "7", "-s")]))
    monkeypatch.setattr(ipc, "tried", lambda *words: "ipcrm ended with 1: no")
    with pytest.raises(Refusal, match="ended with 1"):
        ipc.remove_all(Tree(os.open("/", os.O_RDONLY), dry=False), privileges.FOREIGN)
