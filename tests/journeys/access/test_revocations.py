"""Access that is taken away while a host is away, and what people see until it is served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.operations.journal import writing
from tests.harness.applied_fleet import BO, CEM, DANA, GRANTS, SOLO, TRAIN
from tests.harness.yard import Said, Yard, project
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF, changed, pairs
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk


def alarms(yard: Yard) -> list[str]:
    """What status says of revocations, without the age."""
    needs = yard.gpuaas("status").document["result"]["needsYou"]
    texts = [need["text"] for need in needs if need["kind"] == "alarm"]
    assert all(need["command"] == "gpuaas apply" for need in needs if need["kind"] == "alarm")
    return [text.split(" pending")[0] for text in texts]


def silence(said: Said, node: str) -> str:
    told: str = said.plan["figures"]["silent"][node]
    return told


def rows(yard: Yard, *words: str) -> list[Any]:
    found: list[Any] = yard.gpuaas("grant", "list", *words).document["result"]["rows"]
    return found


def test_a_host_that_is_away_keeps_its_revocations_pending(yard: Yard) -> None:
    """F-GRT-02, ACC-10: K2 and the grant go in one commit, then the file, while the host is down.

    What it missed is told all the while, and none of the keys is left when it is back.
    """
    yard.remove(GRANTS[0])
    yard.write(changed(BO, keys=BO["spec"]["keys"][1:]), changed(DANA, state="suspended"))
    with yard.away("gpu02"):
        away = yard.apply("--auto-approve=safe")
        assert (away.code, set(away.problems)) == (1, {"host_unreachable"})
        assert alarms(yard) == ["revocation of bo, dana on gpu02"]
        assert silence(yard.plan(), "gpu02").endswith("2 revocations wait (bo, dana)")
        assert yard.keys(TRAIN_REF) == [*pairs("ana"), "bo/desk", *pairs("cem")], (
            "others are served"
        )

        yard.write(project("vision", "ana", "bo", "dana"))
        yard.write(changed(TRAIN, access=["ana", "bo"]))
        yard.remove(GRANTS[1])
        still = yard.apply("--auto-approve=safe")
        assert still.code == 1
        assert alarms(yard) == ["revocation of bo, cem, dana on gpu02"]
        (pending,) = yard.world.revocations
        first = yard.rows("SELECT min(started) FROM step WHERE run = 'run-000002'")
        assert [(pending.since,)] == first, "from the first try on"
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem", "dana"), "it knows of nothing yet"

    back = yard.apply("--auto-approve=safe")
    assert back.code == 0
    assert back.plan["waves"][0]["steps"][0]["verb"] == "access.sync", "served first"
    assert yard.keys(SOLO_REF) == pairs("ana")
    assert alarms(yard) == []
    assert yard.plan("--detailed-exitcode").code == 0


def test_another_name_keeps_nobody_in(yard: Yard) -> None:
    """F-GRT-02, ACC-10: grants that end with the name end with the same apply, or stay pending."""
    metadata = {**SOLO["metadata"], "name": "single", "formerName": "solo"}
    yard.remove(SOLO, *GRANTS)
    yard.write({**SOLO, "metadata": metadata})
    yard.commit()
    planned = yard.plan().change("allocation/vision/single")
    assert (planned["action"], planned["facts"]["ends"].partition(",")[0]) == (
        "rename",
        "access of bo",
    )
    with yard.away("gpu02"):
        assert yard.apply().code == 1
        assert alarms(yard) == ["revocation of bo, cem, dana on gpu02"]
        assert "allocation/vision/solo" not in map(str, yard.world.recorded)
    assert yard.apply().code == 0
    assert yard.keys("allocation/vision/single") == pairs("ana")
    assert alarms(yard) == []
    assert yard.plan("--detailed-exitcode").code == 0


def test_a_release_on_a_host_that_is_away_is_a_revocation_too(yard: Yard) -> None:
    """ACC-11: released in git, and everybody may still get in until the host has been told."""
    yard.remove(TRAIN)
    with yard.away("gpu01"):
        assert yard.apply().code == 1
        assert alarms(yard) == ["revocation of ana, bo, cem on gpu01"]
        assert {row["state"] for row in rows(yard, "--allocation", TRAIN_REF)} == {"releasing"}
    done = yard.apply()
    assert done.code == 0
    assert alarms(yard) == []
    assert rows(yard, "--allocation", TRAIN_REF) == []
    assert not list((yard.root("gpu01") / "etc/gpuaas/ssh").iterdir())


def test_suspended_is_shut_out_everywhere_and_referred_to_still(yard: Yard) -> None:
    """Rule 9: every door of theirs is shut at the next apply, on every host, and nothing dangles.

    ACC-01: nobody else's is, and their own keys open them again when they are active.
    """
    before = {ref: yard.keys(ref) for ref in (TRAIN_REF, SOLO_REF, "allocation/nlp/box")}
    yard.write(changed(BO, state="suspended"))
    done = yard.apply("--auto-approve=safe")
    assert (done.code, done.problems) == (0, [])
    for ref, keys in before.items():
        assert yard.keys(ref) == [key for key in keys if not key.startswith("bo/")]
    assert {row["state"] for row in rows(yard, "--user", "bo")} == {"suspended"}
    assert yard.gpuaas("validate").code == 0
    yard.write(BO)
    assert yard.apply("--auto-approve=safe").code == 0
    assert {ref: yard.keys(ref) for ref in before} == before


def test_access_is_listed_in_both_directions(applied: Yard) -> None:
    """ACC-09: by person and by allocation, given by a name and given by a grant."""
    bos = {row["allocation"]: row["cause"] for row in rows(applied, "--user", "bo")}
    assert bos == {
        "allocation/nlp/box": "allocation/nlp/box",
        SOLO_REF: "grant/vision/bo-on-solo",
        TRAIN_REF: TRAIN_REF,
    }
    solo = {row["user"]: row for row in rows(applied, "--allocation", "vision/solo")}
    assert solo.keys() == {"ana", "bo", "cem", "dana"}
    assert solo["dana"]["until"].endswith("Z") and solo["dana"]["reason"] == "helps"
    assert [key.split(" ")[0] for key in solo["bo"]["keys"]] == ["desk", "laptop"]
    assert all(" SHA256:" in key for row in solo.values() for key in row["keys"])
    shown = applied.gpuaas("grants").document
    assert len(shown["result"]["rows"]) == 8, "the plural is the same"


def test_a_grant_outlives_the_keys_of_its_person(yard: Yard) -> None:
    """ACC-05, ACC-04: without keys it stays, opens nothing, and says so; a new key opens it."""
    yard.write(changed(CEM, keys=[]))
    assert yard.apply("--auto-approve=safe").code == 0
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "dana")
    assert {row["state"] for row in rows(yard, "--user", "cem")} == {"no_key"}
    assert yard.recorded("grant/vision/cem-on-solo") is not None
    own = {"id": "new", "publicKey": paper.public_key("cem-new")}
    yard.write(changed(CEM, keys=[own]))
    assert yard.apply("--auto-approve=safe").code == 0
    assert "cem/new" in yard.keys(SOLO_REF)


def test_keys_come_back_after_they_were_lost_on_the_host(yard: Yard) -> None:
    """ACC-08: what a restart must find is in git and in the record, and is written anew."""
    login = yard.recorded(SOLO_REF).login
    (yard.root("gpu02") / f"etc/gpuaas/ssh/{login}").write_text("")
    yard.write(changed(DANA, state="suspended"))
    assert yard.apply("--auto-approve=safe").code == 0
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem")


def test_keys_of_peoples_own_are_told_and_left_alone(yard: Yard) -> None:
    """F-GRT-07: plan, status and the review name them; they are drift, and nobody acts on it."""
    login = yard.recorded(SOLO_REF).login
    seen = yard.world.observations["gpu02"]
    assert seen.facts is not None
    told = {login: ("SHA256:q0 ~/.ssh/authorized_keys", "SHA256:q1 ~/.ssh/authorized_keys2")}
    with writing(yard.fleet(), "test") as journal:
        journal.observe([replace(seen, facts=replace(seen.facts, stray_keys=told), digest="x")])
    plan = yard.plan("--detailed-exitcode")
    assert (plan.code, plan.actions) == (4, {})
    assert [(n["ref"], n["topic"]) for n in plan.plan["notes"]] == [(SOLO_REF, "access")] * 2
    assert yard.plan().code == 0
    review = yard.gpuaas("grant", "list", "--allocation", SOLO_REF).document["result"]
    assert [(one["login"], one["key"]) for one in review["strays"]] == [
        (login, key) for key in told[login]
    ]
    needs = yard.gpuaas("status").document["result"]["needsYou"]
    assert [need["kind"] for need in needs] == ["access"]
    assert "2 keys" in needs[0]["text"]
    runs = yard.runs
    assert yard.apply("--auto-approve=safe").code == 0
    assert yard.runs == runs, "nothing to do"


REFUSED = {
    "grant/vision/eve-on-solo": "not_a_member",
    "grant/nlp/ana-on-train": "dangling_reference",
    "grant/vision/dana-on-train": "grant_expired",
    "grant/vision/dana-on-gone": "dangling_reference",
}


def test_a_grant_that_should_not_be_possible_is_refused_and_written_down(yard: Yard) -> None:
    """F-GRT-05: a stranger, another project's allocation, one that is over, one of what is gone.

    ACC-02: nor may a viewer give one. Each is in the record once: who, before, after and why.
    """
    hosts = yard.hosts()
    yard.write(
        paper.user("eve", "desk"),
        paper.grant("eve-on-solo", "solo", "eve"),
        paper.grant("ana-on-train", "train", "ana", project="nlp"),
        paper.grant("dana-on-train", "train", "dana", expiresAt="2026-01-01T00:00:00Z"),
        paper.grant("dana-on-gone", "gone", "dana"),
    )
    yard.commit()
    planned = yard.plan()
    assert planned.code == 1
    said = {p["ref"]: p["code"] for p in planned.document["problems"]} | planned.blocked
    assert {ref: said[ref] for ref in REFUSED} == REFUSED
    for _ in range(2):
        assert yard.apply("--auto-approve=safe").code == 1
    assert yard.hosts() == hosts
    told = [e for e in yard.gpuaas("events").document["result"] if e["type"] == "refused"]
    assert {e["ref"]: e["after"]["code"] for e in told} == REFUSED
    assert len(told) == len(REFUSED), "once, however often it is applied"
    over = next(e for e in told if e["ref"] == "grant/vision/dana-on-train")
    assert over["after"]["author"] == "olga" and over["actor"] and "time was over" in over["reason"]
    assert yard.gpuaas("state", "check").code == 0


def test_a_viewer_cannot_grant(yard: Yard) -> None:
    """ACC-02, F-GRT-05: by the author of the commit; nothing of it reaches a host."""
    team = project("vision", "ana", "bo", "cem", "dana")
    team["spec"]["members"][3]["role"] = "viewer"
    yard.write(team)
    yard.commit()
    assert yard.apply("--auto-approve=safe").code == 0
    keys = yard.keys(TRAIN_REF)
    yard.write(paper.grant("dana-on-train", "train", "dana"))
    yard.commit("dana")
    done = yard.apply("--auto-approve=safe")
    assert done.blocked == {"grant/vision/dana-on-train": "role_cannot_grant"}
    assert done.code == 3
    assert yard.keys(TRAIN_REF) == keys
    (told,) = [e for e in yard.gpuaas("events").document["result"] if e["type"] == "refused"]
    assert told["after"] == {
        "code": "role_cannot_grant",
        "file": "specs/grant/vision/dana-on-train.yaml",
        "author": "dana",
        "commit": told["commit"],
    }
    assert "before" not in told or told["before"] is None


def test_no_host_is_touched_without_a_run_and_a_plan(applied: Yard) -> None:
    """SEC-04: every step that a host was ever asked for belongs to a run, and that to a plan."""
    orphans = applied.rows(
        "SELECT id FROM step WHERE run NOT IN (SELECT id FROM run WHERE fingerprint <> '')"
    )
    assert orphans == []
    ((steps,),) = applied.rows("SELECT count(*) FROM step")
    assert steps > 0
    told = applied.rows("SELECT DISTINCT run FROM event WHERE type = 'step_started'")
    assert told == applied.rows("SELECT id FROM run")
    plans = dict(applied.rows("SELECT id, fingerprint FROM run"))
    assert len(applied.runs) >= len(plans), "one folder for each time that Ansible was started"
    assert all(fingerprint.startswith("sha256:") for fingerprint in plans.values())
