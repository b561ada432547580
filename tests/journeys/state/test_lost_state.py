"""A state that is missing, new or damaged is never taken for a fleet with nothing on it."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest

from tests.harness.yard import Yard

pytestmark = pytest.mark.walk

ALLOCATIONS = ("allocation/nlp/box", "allocation/vision/solo", "allocation/vision/train")
COMMANDS = (
    ("plan",),
    ("plan", "--refresh"),
    ("apply", "--auto-approve=destroys"),
    ("status",),
    ("state", "check"),
)


@pytest.mark.parametrize("how", ["another path", "the database is gone", "the folder is gone"])
def test_a_state_that_is_not_there_is_lost_and_not_new(yard: Yard, how: str) -> None:
    """F-STA-02: no command makes another one, and nothing happens on any host."""
    state = yard.folder / "state"
    if how == "another path":
        (yard.folder / "gpuaas.yaml").write_text("operators: [olga]\nstate: elsewhere\n")
    elif how == "the folder is gone":
        shutil.rmtree(state)
    else:
        for name in ("gpuaas.db", "gpuaas.db-wal", "gpuaas.db-shm"):
            (state / name).unlink(missing_ok=True)
    hosts = yard.hosts()
    for words in COMMANDS:
        refused = yard.gpuaas(*words)
        assert (refused.code, refused.problems) == (1, ["state_missing"]), words
        assert "restore" in refused.messages
    assert not list(yard.folder.rglob("gpuaas.db")) or how == "another path"
    assert not (yard.folder / "elsewhere/gpuaas.db").exists()
    assert yard.hosts() == hosts


def test_a_new_state_does_not_take_over_the_hosts_of_a_lost_one(yard: Yard) -> None:
    """F-STA-02: hosts that bear marks of another state take nobody, and the list names them."""
    ids = {ref: yard.recorded(ref).id for ref in ALLOCATIONS}
    refused = yard.gpuaas("state", "init", "--new")
    assert (refused.code, refused.problems) == (1, ["state_exists"])
    assert yard.gpuaas("state", "init").code == 1
    shutil.rmtree(yard.folder / "state")
    assert yard.gpuaas("state", "init", "--new").code == 0
    hosts = yard.hosts()
    done = yard.apply()
    assert done.code == 3
    assert done.blocked == dict.fromkeys(ALLOCATIONS, "sku_unavailable")
    for ref in ALLOCATIONS:
        explained = yard.gpuaas("explain", ref).document["result"]["candidates"]
        details = [one["detail"] for one in explained if one["rule"] == "foreign_descriptors"]
        assert details == [f"holds {ids[ref]} of another state"]
    assert (yard.claims, yard.hosts()) == ({}, hosts)


def test_rows_that_are_gone_give_nobody_a_second_place(yard: Yard) -> None:
    """F-STA-02: what was recorded is gone from its table, the claims hold what they held."""
    claims = yard.claims
    ids = {ref: yard.recorded(ref).id for ref in ALLOCATIONS}
    connection = sqlite3.connect(yard.folder / "state/gpuaas.db")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("DELETE FROM resource")
    guards = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'resource'"
    for (name,) in connection.execute(guards).fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DELETE FROM resource")
    connection.commit()
    connection.close()
    assert yard.gpuaas("state", "check").code == 1
    made = {c["ref"]: c for c in yard.plan().plan["changes"] if c["ref"] in ALLOCATIONS}
    assert {ref: change["allocationId"] for ref, change in made.items()} == ids
    assert yard.plan().plan["claims"] == []
    assert yard.claims == claims


def test_a_key_that_is_missing_signs_nothing(yard: Yard) -> None:
    """Rule 21: without the key of this machine no descriptor is written."""
    key = yard.folder / ".gpuaas/descriptor.key"
    assert os.stat(key).st_mode & 0o777 == 0o600
    hidden = key.rename(key.with_name("hidden"))
    assert yard.plan("--detailed-exitcode").code == 0, "nothing is to be signed"
    (yard.specs / "allocation/vision/train.yaml").unlink()
    yard.commit()
    assert yard.plan().code == 0
    file = yard.specs / "allocation/nlp/box.yaml"
    file.write_text(file.read_text().replace("owner: bo", "owner: ana"))
    refused = yard.plan()
    assert (refused.code, refused.problems) == (1, ["descriptor_key_missing"])
    hidden.rename(key)
    assert yard.plan().code == 0
