"""Drift on real folders: found in one pass, put right where we made it, and let be where it is not
ours.
"""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.operations.fleet import utc_now
from reconciler.operations.node.directory_host import DRIVER, MARK
from tests.harness.applied_fleet import GRANTS, TRAIN
from tests.harness.applied_fleet import SOLO as SPEC_OF_SOLO
from tests.harness.crash import kill
from tests.harness.yard import Said, Yard
from tests.sources import imports, tree
from tests.test_architecture import PACKAGE

pytestmark = pytest.mark.walk

SOLO = "allocation/vision/solo"
UNTIL = "2030-01-01T00:00:00Z"
OWN = "what a person has written"


def path_of(yard: Yard, kind: str) -> Path:
    """Where the one thing of the allocation that is `kind` lies."""
    one = yard.recorded(SOLO)
    (found,) = [key for key in one.facts if kind in key]
    return yard.root(one.node) / found[1:]


def drifted(said: Said) -> dict[str, tuple[str, str]]:
    """Key → class and what becomes of it."""
    found = said.document["result"]["found"]
    return {one["key"]: (one["kind"], one["becomes"]) for one in found}


def state(yard: Yard) -> dict[str, bytes]:
    kept = yard.folder.glob("state/gpuaas.db*")
    return {path.name: path.read_bytes() for path in kept if not path.name.endswith("-shm")}


def spoil(yard: Yard) -> dict[str, Path]:
    """By hand: keys, a file of the platform's gone, another driver, a home opened and used."""
    node = yard.root(yard.recorded(SOLO).node)
    places = {
        "keys": path_of(yard, "/ssh/"),
        "env": path_of(yard, ".env"),
        "home": path_of(yard, "/home/"),
        "driver": node / MARK / "gpus.csv",
    }
    with places["keys"].open("a") as file:
        file.write("ssh-ed25519 AAAA eve\n")
    places["env"].unlink()
    (places["home"] / "notes").write_text(OWN)
    places["home"].chmod(0o755)
    (places["home"] / ".ssh").mkdir()
    (places["home"] / ".ssh/config").write_text(OWN)
    driver = places["driver"].read_text()
    assert DRIVER in driver
    places["driver"].write_text(driver.replace(DRIVER, "999.1"))
    return places


def test_drift_is_found_in_one_pass_and_what_we_made_is_put_right(yard: Yard) -> None:
    """STM-07, STM-08, INV-17: two are made again, the driver is told, and nothing of a person's is
    touched; the look itself writes nothing anywhere.
    """
    keys, env = path_of(yard, "/ssh/").read_text(), path_of(yard, ".env").read_text()
    assert yard.gpuaas("drift").code == 0
    places = spoil(yard)
    before = (yard.hosts(), state(yard))

    asked = yard.gpuaas("drift", "--ask")
    assert (yard.hosts(), state(yard)) == before
    assert yard.gpuaas("drift").code == 0, "what was asked is not kept"
    one = yard.recorded(SOLO)
    root = yard.root(one.node)
    names = {kind: f"/{places[kind].relative_to(root)}" for kind in ("keys", "env", "home")}
    assert asked.code == 4
    assert drifted(asked) == {
        names["keys"]: ("access", "repaired"),
        names["env"]: ("platform", "repaired"),
        names["home"]: ("user", "reported"),
        "driver": ("evidence", "reported"),
    }

    planned = yard.plan("--refresh", "--detailed-exitcode")
    assert (planned.code, planned.actions) == (4, {SOLO: "repair"})
    assert drifted(yard.gpuaas("drift")) == drifted(asked)
    assert drifted(yard.gpuaas("drift", SOLO)).keys() == set(names.values())
    assert drifted(yard.gpuaas("drift", f"node/{one.node}")) == drifted(asked)

    done = yard.apply("--auto-approve")
    assert done.code == 0, done.document["problems"]
    assert (places["keys"].read_text(), places["env"].read_text()) == (keys, env)
    assert places["home"].stat().st_mode & 0o777 == 0o755
    assert (places["home"] / "notes").read_text() == OWN
    assert (places["home"] / ".ssh/config").read_text() == OWN
    assert "999.1" in places["driver"].read_text()

    left = yard.plan("--refresh", "--detailed-exitcode")
    assert (left.code, left.actions) == (4, {})
    assert sorted(note["topic"] for note in left.plan["notes"]) == ["evidence", "user"]


def test_a_word_lets_a_drift_be_and_is_told_everywhere(yard: Yard) -> None:
    """STM-08, rule 10: with actor, reason and end; killed at each stop it is there or not."""
    env = path_of(yard, ".env")
    key = f"/{env.relative_to(yard.root(yard.recorded(SOLO).node))}"
    word = ("drift", "accept", SOLO, key, "--reason", "a trial", "--until", UNTIL)
    back = ("drift", "retract", SOLO, key, "--reason", "over")
    assert refused(yard.gpuaas(*word)) == "drift_unseen"
    env.unlink()
    assert yard.plan("--refresh").actions == {SOLO: "repair"}

    kill(yard, word, "accept_drift.before")
    assert drifted(yard.gpuaas("drift")) == {key: ("platform", "repaired")}
    kill(yard, word, "accept_drift.after")
    assert yard.gpuaas(*word).code == 0
    found = yard.gpuaas("drift")
    assert (found.code, drifted(found)) == (0, {key: ("platform", "accepted")})
    assert found.document["result"]["found"][0]["accepted"]["reason"] == "a trial"
    planned = yard.plan("--detailed-exitcode")
    assert (planned.code, planned.actions) == (0, {})
    assert planned.plan["notes"][0]["accepted"].endswith("a trial")
    assert (yard.apply().code, env.exists()) == (0, False)

    kill(yard, back, "retract_drift.before")
    assert yard.plan().actions == {}
    kill(yard, back, "retract_drift.after")
    assert refused(yard.gpuaas(*back)) == "not_found"
    assert (yard.apply().code, env.exists()) == (0, True)
    types = [type for (type,) in yard.rows("SELECT type FROM event WHERE type LIKE 'drift%'")]
    assert types == ["drift_accepted", "drift_accepted", "drift_retracted"]


def test_no_word_opens_a_door(yard: Yard) -> None:
    """Rule 10: a consent may be recorded, and nobody let in by one."""
    keys = path_of(yard, "/ssh/")
    keys.write_text(keys.read_text() + "ssh-ed25519 AAAA eve\n")
    assert yard.plan("--refresh").actions == {SOLO: "repair"}
    key = f"/{keys.relative_to(yard.root(yard.recorded(SOLO).node))}"
    given = {"--reason": "he is nice", "--until": UNTIL}
    for changes, code in (
        ({}, "drift_unacceptable"),
        ({"--reason": " "}, "usage"),
        ({"--reason": "a\nb"}, "usage"),
        ({"--until": "2020-01-01T00:00:00Z"}, "usage"),
    ):
        words = [word for pair in {**given, **changes}.items() for word in pair]
        assert refused(yard.gpuaas("drift", "accept", SOLO, key, *words)) == code
    assert yard.plan().actions == {SOLO: "repair"}


def refused(said: Said) -> Any:
    assert said.code != 0
    (code,) = said.problems
    return code


def test_what_is_let_go_of_stays_and_is_taken_back_after_a_look(yard: Yard) -> None:
    """STM-08, F-PLC-04: nothing on its host is touched, its slots are nobody else's, and what was
    changed by hand meanwhile is made again once git names it anew.
    """
    train = "allocation/vision/train"
    go = ("forget", train, "--reason", "moves to another team")
    assert refused(yard.gpuaas(*go)) == "in_use"
    yard.remove(TRAIN)
    kill(yard, go, "let_go.before")
    assert not yard.recorded(train).forgotten
    before, claims = yard.hosts(), yard.claims
    kill(yard, go, "let_go.after")
    assert refused(yard.gpuaas(*go)) == "not_found"
    assert (yard.plan().actions, yard.hosts(), yard.claims) == ({}, before, claims)
    one = yard.recorded(train)
    keys = yard.root(one.node) / "etc/gpuaas/ssh" / one.login
    whole = keys.read_text()
    keys.write_text("")
    assert yard.plan("--refresh").actions == {}
    assert (yard.gpuaas("drift").code, yard.apply().code, keys.read_text()) == (0, 0, "")
    billed = "SELECT count(*), sum(ended = '') FROM usage_record WHERE allocation_id = ?"
    assert yard.rows(billed, one.id) == [(1, 0)]

    yard.write({**TRAIN, "spec": {**TRAIN["spec"], "sku": "slice-1"}})
    assert yard.plan().blocked == {train: "adopt_unsound"}
    yard.write(TRAIN)
    assert yard.plan().actions == {train: "adopt"}
    done = yard.apply("--auto-approve")
    assert (done.code, done.actions) == (0, {train: "adopt"})
    back = yard.recorded(train)
    assert (back.id, back.login, back.forgotten) == (one.id, one.login, False)
    assert (keys.read_text(), yard.claims) == (whole, claims)
    assert yard.rows(billed, one.id) == [(2, 1)]
    assert yard.plan("--refresh", "--detailed-exitcode").code == 0


@pytest.mark.parametrize(("days", "kept"), [(1, True), (40000, False)])
def test_what_is_taken_back_has_an_end_as_before(yard: Yard, days: int, kept: bool) -> None:
    """F-REAL-23: the lease that it was given goes on; if that is over, one of today begins."""
    train = "allocation/vision/train"
    spec = {key: value for key, value in TRAIN["spec"].items() if key != "expiresAt"}
    by_default = {**TRAIN, "spec": spec}
    yard.write(by_default)
    assert yard.apply("--auto-approve").code == 0
    end = yard.recorded(train).expires_at
    assert end
    yard.remove(TRAIN)
    assert yard.gpuaas("forget", train, "--reason", "x").code == 0
    assert yard.recorded(train).expires_at == ""
    assert yard.plan().actions == {}
    yard.write(by_default)
    later = utc_now() + timedelta(days=days)
    yard.approved_at(later)
    back = yard.recorded(train)
    assert not back.forgotten
    assert back.expires_at == end if kept else back.expires_at > end
    assert back.expires_at > format_moment(later)


def test_what_is_protected_or_may_stand_in_some_file_is_not_let_go_of(yard: Yard) -> None:
    go = ("forget", SOLO, "--reason", "x")
    (yard.specs / "broken.yaml").write_text("a: [")
    assert refused(yard.gpuaas(*go)) == "in_use"
    (yard.specs / "broken.yaml").unlink()
    yard.remove(SPEC_OF_SOLO, *GRANTS)
    assert refused(yard.gpuaas(*go)) == "protected"
    assert refused(yard.gpuaas("forget", "node/gpu01", "--reason", "x")) == "not_found"


WRITERS = ("operations.journal", "store.journal", "ansible.executor", "hosts.prepare_commit")


def test_what_shows_drift_has_no_way_to_write() -> None:
    """STM-08: it opens the state to read, and takes from what can write only how to ask."""
    path = PACKAGE / "operations" / "drift" / "drift.py"
    assert not [name for name, _ in imports(path) if any(word in name for word in WRITERS)]
    words = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    assert "reading" in words and not words & {"open", "execute", "transaction", "record"}
