"""The cache: it spares work, and can never change what is said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from reconciler.model.spec.document import FileStamp
from reconciler.specs import desired
from reconciler.specs.git.tree_keys import tree_key
from reconciler.specs.read import loader
from tests.specs.small_fleet import Fleet, allocation


class Memory:
    """A document cache that counts."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], str] = {}
        self.stamped: dict[str, tuple[FileStamp, str]] = {}

    def get_many(self, space: str, keys: Iterable[str]) -> Mapping[str, str]:
        return {key: self.rows[space, key] for key in keys if (space, key) in self.rows}

    def put_many(self, space: str, rows: Mapping[str, str]) -> None:
        self.rows.update({(space, key): text for key, text in rows.items()})

    def stamps(self) -> Mapping[str, tuple[FileStamp, str]]:
        return dict(self.stamped)

    def put_stamps(
        self, rows: Mapping[str, tuple[FileStamp, str]], gone: Iterable[str] = ()
    ) -> None:
        for name in gone:
            del self.stamped[name]
        self.stamped.update(rows)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened."""
    opened: list[str] = []

    def read(name: str, path: str) -> bytes:
        opened.append(name)
        return real(name, path)

    real = loader.read_file
    monkeypatch.setattr(loader, "read_file", read)
    return opened


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are parsed."""
    names: list[str] = []

    def judge(self: loader.Judge, file: str, content: bytes) -> loader.CheckedFile:
        names.append(file)
        return real(self, file, content)

    real = loader.Judge.judge
    monkeypatch.setattr(loader.Judge, "judge", judge)
    return names


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns() + 10_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now)


def test_unchanged_files_are_not_opened(
    fleet: Fleet, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Memory()
    settle(monkeypatch)
    first = fleet.load(cache)
    assert len(reads) == 4
    reads.clear()
    assert fleet.load(cache) == first
    assert reads == []
    assert list(fleet.load(cache).resources) == list(first.resources)


def test_a_file_written_just_now_is_not_trusted(fleet: Fleet, reads: list[str]) -> None:
    """Two writes within one tick of the clock leave one stamp."""
    cache = Memory()
    fleet.load(cache)
    assert not cache.stamped
    reads.clear()
    fleet.load(cache)
    assert len(reads) == 4


def test_known_content_is_not_parsed_again(fleet: Fleet, judged: list[str]) -> None:
    cache = Memory()
    first = fleet.load(cache)
    judged.clear()
    for path in fleet.folder.rglob("*.yaml"):
        os.utime(path)
    assert fleet.load(cache).resources == first.resources
    assert judged == []


def test_a_change_is_seen_although_size_and_time_are_kept(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Memory()
    path = fleet.folder / "specs/vision/train.yaml"
    before = path.stat()
    settle(monkeypatch)
    fleet.load(cache)
    path.write_text(allocation("brain"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert fleet.load(cache).get("allocation", "brain", "vision")


def test_files_with_problems_are_never_remembered(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Memory()
    fleet.write("bad.yaml", allocation("bad") + "  gpus: 1\n")
    settle(monkeypatch)
    assert fleet.load(cache).problems == fleet.load(cache).problems == fleet.load().problems


def test_removed_files_leave_the_cache(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Memory()
    settle(monkeypatch)
    fleet.load(cache)
    (fleet.folder / "specs/vision/train.yaml").unlink()
    assert len(fleet.load(cache).resources) == 6
    assert "specs/vision/train.yaml" not in cache.stamped
    fleet.load(cache, paths=[fleet.folder / "specs/people.yaml"])
    assert len(cache.stamped) == 3


def test_another_program_or_schema_forgets_everything(
    fleet: Fleet, judged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Memory()
    fleet.load(cache)
    judged.clear()
    monkeypatch.setattr(loader, "program_digest", lambda: "another")
    fleet.load(cache)
    assert len(judged) == 4


def test_helpers_say_the_same(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        fleet.write(f"many/{number}.yaml", allocation(f"a{number}"))
    fleet.write("many/bad.yaml", allocation("bad") + "  gpus: 1\n")
    alone = fleet.load()
    monkeypatch.setattr(loader, "SHARED_FROM", 10)
    monkeypatch.setattr(loader, "CHUNK", 5)
    cache = Memory()
    assert fleet.load(cache) == alone
    assert fleet.load(cache) == alone


HELPED = """
import os, sys, time
from pathlib import Path
from reconciler.specs.read import loader as loading
from tests.specs.small_fleet import Fleet, allocation

def judge_for_ever(judge, batch):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(300)

loading.SHARED_FROM, loading.CHUNK, loading._judge_all = 1, 1, judge_for_ever
Fleet(Path(sys.argv[1])).load()
"""


def test_helpers_end_with_whom_they_help(fleet: Fleet) -> None:
    """F-STA-06: one that outlived a killed apply would be a process of ours, and hold its files."""
    for number in range(4):
        fleet.write(f"many/{number}.yaml", allocation(f"a{number}"))
    with subprocess.Popen(
        [sys.executable, "-c", HELPED, str(fleet.folder)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    ) as helped:
        assert helped.stdout is not None
        pids = [int(helped.stdout.readline()) for _ in range(loader.HELPERS)]
        helped.kill()
    end = time.monotonic() + 2
    while [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_linking_found_is_remembered(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a kind is asked again about files that are as they were – until one of them is not."""
    cache = Memory()
    fleet.write("x.yaml", allocation("x").replace("owner: ana", "owner: anna"))
    first = fleet.load(cache)
    asked: list[object] = []
    link = desired.link
    monkeypatch.setattr(desired, "link", lambda *given: asked.append(given) or link(*given))
    assert fleet.load(cache) == first
    assert "dangling_reference" in {problem.code for problem in first.problems}
    assert asked == []
    (fleet.folder / "gpuaas.yaml").write_text("operators: [bo]\n")
    fleet.load(cache)
    fleet.write("x.yaml", allocation("x"))
    assert not [problem for problem in fleet.load(cache).problems if problem.is_error]
    assert len(asked) == 2


def test_the_tree_key_is_told_by_stamps_where_git_cannot(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by nothing once a file is new, changed, gone for good or no file at all."""
    settle(monkeypatch)
    cache = Memory()
    assert tree_key(fleet.settings, cache) == ""
    fleet.load(cache)
    key = tree_key(fleet.settings, cache)
    assert key and key == tree_key(fleet.settings, cache)
    added = fleet.write("vision/new.yaml", allocation("new"))
    assert tree_key(fleet.settings, cache) == ""
    fleet.load(cache)
    assert tree_key(fleet.settings, cache) not in ("", key)
    added.unlink()
    assert tree_key(fleet.settings, cache) == key
    os.utime(fleet.folder / "specs" / "people.yaml")
    assert tree_key(fleet.settings, cache) == ""
    fleet.load(cache)
    assert tree_key(fleet.settings, cache) == key, "touched and read again"
    fleet.write("pipe.yaml", "").unlink()
    os.mkfifo(fleet.folder / "specs" / "pipe.yaml")
    assert tree_key(fleet.settings, cache) == ""
