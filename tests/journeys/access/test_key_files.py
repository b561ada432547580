"""Who may log in: key files as they stand on hosts, after git, time or people have changed."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from reconciler.operations.fleet import utc_now
from tests.harness.applied_fleet import BO, CEM, DANA, GRANTS, TRAIN
from tests.harness.yard import Yard, hardware_key, project
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

SOLO_REF, TRAIN_REF = "allocation/vision/solo", "allocation/vision/train"
EVERYBODY = ("ana", "bo", "cem", "dana", "olga")


def changed(document: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    copy = deepcopy(dict(document))
    copy["spec"].update(spec)
    return copy


def pairs(*names: str) -> list[str]:
    """`user/key` of both keys of these people, as a key file names them."""
    return [f"{name}/{key}" for name in names for key in ("desk", "laptop")]


def test_every_key_stands_on_its_line_and_nobody_elses_does(applied: Yard) -> None:
    """F-GRT-03, F-GRT-06, F-GRT-08: two keys each, a hardware key among them, whole lines."""
    assert applied.keys(SOLO_REF) == pairs("ana", "bo", "cem", "dana")
    assert applied.keys(TRAIN_REF) == pairs("ana", "bo", "cem")
    assert applied.keys("allocation/nlp/box") == pairs("bo")
    login = applied.recorded(SOLO_REF).login
    text = (applied.root("gpu02") / f"etc/gpuaas/ssh/{login}").read_text()
    assert text.endswith("\n")
    kind, blob, _ = hardware_key("dana").split()
    assert f"\n{kind} {blob} dana/laptop\n" in text
    assert not (applied.root("gpu02") / f"home/{login}/.ssh").exists()


def test_what_is_taken_away_is_gone_and_nothing_else_moves(yard: Yard) -> None:
    """F-PLN-01, F-GRT-02, F-GRT-03: a grant from the middle, a key, a person who is suspended.

    Each is a line of its own, and those of the allocations name them as their cause.
    """
    own = yard.root("gpu02") / "home" / yard.recorded(SOLO_REF).login / ".ssh"
    own.mkdir()
    (own / "authorized_keys").write_text("ssh-ed25519 AAAA ana by hand")
    box = yard.recorded("allocation/nlp/box")
    yard.remove(GRANTS[1])
    yard.write(changed(BO, keys=BO["spec"]["keys"][1:]), changed(DANA, state="suspended"))

    done = yard.apply("--auto-approve=safe")
    assert done.code == 0
    assert done.actions == {
        "allocation/nlp/box": "change",
        SOLO_REF: "change",
        TRAIN_REF: "change",
        "grant/vision/cem-on-solo": "forget",
        "user/bo": "change",
        "user/dana": "change",
    }
    causes = {ref: done.change(ref)["causedBy"] for ref in (SOLO_REF, TRAIN_REF)}
    assert causes == {
        SOLO_REF: ["grant/vision/cem-on-solo", "user/bo", "user/dana"],
        TRAIN_REF: ["user/bo"],
    }
    verbs = {(s["ref"], s["verb"]) for wave in done.plan["waves"] for s in wave["steps"]}
    assert {verb for _, verb in verbs} == {"access.sync"}
    assert yard.keys(SOLO_REF) == [*pairs("ana"), "bo/desk"]
    assert yard.keys(TRAIN_REF) == [*pairs("ana"), "bo/desk", *pairs("cem")]
    assert yard.keys("allocation/nlp/box") == ["bo/desk"]
    assert (own / "authorized_keys").read_text() == "ssh-ed25519 AAAA ana by hand"
    after = yard.recorded("allocation/nlp/box")
    assert (after.id, after.login, after.slots) == (box.id, box.login, box.slots)
    assert yard.plan("--detailed-exitcode").code == 0


def test_time_takes_away_what_ends(yard: Yard) -> None:
    """A grant past its end and a key past its own open nothing, although no file has changed."""
    later = utc_now() + timedelta(hours=4)
    done = yard.approved_at(later)
    assert done.problems == ()
    lines = {str(c.ref): (c.action.value, *map(str, c.caused_by)) for c in done.plan.changes}
    assert lines[SOLO_REF] == ("change", "grant/vision/dana-on-solo")
    assert lines.keys() == {SOLO_REF, TRAIN_REF, "allocation/nlp/box"}
    assert yard.keys(SOLO_REF) == [*pairs("ana"), "bo/laptop", *pairs("cem")]
    assert yard.keys(TRAIN_REF) == [*pairs("ana"), "bo/laptop", *pairs("cem")]
    assert yard.approved_at(later).plan.changes == ()


def test_who_left_gets_in_nowhere_however_untidy_the_specs_are(yard: Yard) -> None:
    """F-GRT-02, ACC-10: revocation never waits for a clean repository, and the exit code says so.

    Cem is off the list of members while an allocation and a grant still name them. Bo's file is
    gone, and so are they from that list, but all else that named them still does.
    """
    known = yard.world.recorded.keys()
    yard.write(project("vision", "ana", "dana"))
    yard.remove(BO)
    done = yard.apply("--auto-approve=safe")
    assert done.code == 1
    assert set(done.problems) == {"not_a_member", "dangling_reference"}
    assert done.blocked["user/bo"] == "in_use"
    causes = {c["ref"]: c["causedBy"] for c in done.plan["changes"] if c["action"] == "change"}
    assert causes == {
        "allocation/nlp/box": ["user/bo"],
        SOLO_REF: ["project/vision", "user/bo"],
        TRAIN_REF: ["project/vision", "user/bo"],
        "project/vision": [],
    }
    assert yard.keys(TRAIN_REF) == pairs("ana")
    assert yard.keys(SOLO_REF) == pairs("ana", "dana")
    assert yard.keys("allocation/nlp/box") == []
    assert yard.world.recorded.keys() == known
    again = yard.apply("--auto-approve=safe")
    assert (again.code, again.document["result"]["run"]) == (1, "")

    yard.write(BO, project("vision", "ana", "bo", "cem", "dana"))
    back = yard.plan()
    assert back.code == 0
    assert back.change(TRAIN_REF)["facts"]["access"].startswith("ana (desk, laptop), bo")


def test_a_change_that_is_held_or_refused_still_takes_away(yard: Yard) -> None:
    """F-GRT-02, rule 9: revocation waits for no consent to, and no place for, the rest of it."""
    yard.write(changed(TRAIN, sku="slice-1", access=["ana", "bo", "dana"]))
    yard.commit()
    done = yard.apply("--auto-approve=safe")
    assert done.blocked == {TRAIN_REF: "held_for_approval"}
    assert done.code == 5
    assert yard.keys(TRAIN_REF) == pairs("ana", "bo"), "Cem is out, Dana is not in yet"
    assert yard.recorded(TRAIN_REF).normal["spec"]["sku"] == "slice-2"
    assert set(yard.claims.values()) == {"held"}, "of what is held nothing is given up"
    runs = yard.runs
    again = yard.apply("--auto-approve=safe")
    assert (again.code, again.blocked, yard.runs) == (5, done.blocked, runs)


HOSTILE = {
    "orders": 'command="sh" {key}',
    "second line": "{key}\n{key}",
    "two in one": "{key} {key}",
    "carriage return": "{key}\r",
    "NUL": "{key}\0",
    "junk": "x {key}",
    "old": "ssh-dss AAAAB3NzaC1kc3M=",
}


def test_a_hostile_or_shared_key_reaches_no_host(yard: Yard) -> None:
    """F-GRT-01, F-GRT-09: the person is refused, what they had stays, and the exit code is 1."""
    hosts, plain = yard.hosts(), paper.public_key("bo-new")
    for what, text in HOSTILE.items():
        key = {"id": "new", "publicKey": text.format(key=plain)}
        yard.write(changed(BO, keys=[*BO["spec"]["keys"], key]))
        refused = yard.plan()
        assert refused.code == 1, what
        assert refused.actions == {"user/bo": "frozen"}, what
    shared = {"id": "new", "publicKey": CEM["spec"]["keys"][1]["publicKey"]}
    yard.write(changed(BO, keys=[*BO["spec"]["keys"], shared]))
    refused = yard.apply()
    assert (refused.code, set(refused.problems)) == (1, {"key_shared"})
    assert set(refused.actions.values()) == {"frozen"}
    assert yard.hosts() == hosts
