"""The cache: fast, forgetful, and never in anybody's way."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.spec.document import DocumentCache, FileStamp
from reconciler.store import cache as module
from reconciler.store.cache import SqliteCache
from tests import privileges


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


def test_keeps_texts_by_space_and_key(path: Path) -> None:
    """F-STA-08: what one process kept the next one finds, in its own space only."""
    cache: DocumentCache = SqliteCache(path)
    cache.put_many("parsed", {"k1": "one", "k2": 'zwei "ü" \U0001f600', "quote'": ""})
    cache.put_many("parsed", {"k1": "one again"})
    for reader in (cache, SqliteCache(path)):
        found = reader.get_many("parsed", ["k1", "k2", "quote'", "nothing"])
        assert found == {"k1": "one again", "k2": 'zwei "ü" \U0001f600', "quote'": ""}
        assert reader.get_many("valid", ["k1"]) == {}
    assert path.stat().st_mode & 0o777 == 0o600


def test_more_than_one_batch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-STA-08: large reads are cut, and come back whole."""
    monkeypatch.setattr(module, "BATCH", 7)
    cache = SqliteCache(path)
    rows = {f"k{number}": str(number) for number in range(50)}
    cache.put_many("s", rows)
    assert cache.get_many("s", iter(rows)) == rows


def test_keeps_stamps(path: Path) -> None:
    """F-STA-08: a file's stamp and digest, until it is gone."""
    cache = SqliteCache(path)
    one, two = FileStamp(1, 2**62, 3, 2**63 - 1), FileStamp(5, 6, 7, 8)
    cache.put_stamps({"a.yaml": (one, "d1"), "b.yaml": (two, "d2")})
    assert cache.stamps() == {"a.yaml": (one, "d1"), "b.yaml": (two, "d2")}
    cache.put_stamps({"a.yaml": (two, "d3")}, gone=["b.yaml", "never.yaml"])
    assert SqliteCache(path).stamps() == {"a.yaml": (two, "d3")}


def test_reading_makes_no_file(path: Path) -> None:
    """F-STA-02: looking does not make a cache, nor a folder for it."""
    cache = SqliteCache(path)
    assert (cache.get_many("s", ["k"]), cache.stamps()) == ({}, {})
    SqliteCache(path.parent / "no" / "cache.db").put_many("s", {"k": "v"})
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "text", "empty", "schema"])
def test_damage_is_forgotten(path: Path, damage: str) -> None:
    """F-STA-03: a cache is no truth: a damaged one is removed and made again."""
    cache = SqliteCache(path)
    cache.put_many("s", {f"k{number}": "v" * 100 for number in range(2000)})
    cache.close()
    content = path.read_bytes()
    if damage == "schema":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE text")
            connection.execute("CREATE TABLE text (other)")
    else:
        path.write_bytes(
            {
                "flip": content[:4096] + b"\xff" * (len(content) - 4096),
                "truncate": content[: len(content) // 2],
                "text": b"no database" * 100,
                "empty": b"",
            }[damage]
        )
    assert SqliteCache(path).get_many("s", ["k1"]) == {}
    again = SqliteCache(path)
    again.put_many("s", {"k": "v"})
    assert again.get_many("s", ["k"]) == {"k": "v"}


@privileges.needs(privileges.mounts)
def test_read_only_is_done_without(tmp_path: Path) -> None:
    """F-STA-09: on a read-only disk there is no cache, and no complaint."""
    folder = tmp_path / "state"
    folder.mkdir()
    cache = SqliteCache(folder / "cache.db")
    cache.put_many("s", {"k": "v"})
    cache.close()
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        cache = SqliteCache(folder / "cache.db")
        cache.put_many("s", {"k2": "v"})
        assert cache.get_many("s", ["k2"]) == {}
        cache.close()
    finally:
        subprocess.run(["umount", folder], check=True)


def test_busy_is_done_without(path: Path) -> None:
    """F-STA-08: a cache that another process is writing is read meanwhile, and never waited for."""
    cache = SqliteCache(path)
    cache.put_many("s", {"k": "v"})
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        cache.put_many("s", {"k": "other"})
        assert cache.get_many("s", ["k"]) == {"k": "v"}


def test_does_not_grow_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-STA-05: when it is too large, it starts anew."""
    cache = SqliteCache(path)
    cache.put_many("s", {f"k{number}": "v" * 1000 for number in range(500)})
    monkeypatch.setattr(module, "SIZE_LIMIT", 100_000)
    cache.put_many("s", {"new": "v"})
    assert cache.get_many("s", ["k1", "new"]) == {"new": "v"}
