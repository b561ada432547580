"""Who looks on sees what became of a fleet: of one that was really applied, by its commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reconciler.cli.main import run
from reconciler.model.plan.work import HostProgress, WaveIntent
from reconciler.operations.journal import writing
from reconciler.operations.plan.saved import read_plan
from reconciler.store.progress import RunProgress
from tests.harness.applied_fleet import TRAIN
from tests.harness.yard import Yard, copy_of

pytestmark = pytest.mark.walk

REF = "allocation/vision/train"


def test_a_timeline_has_the_phases_of_what_was_done(applied: Yard) -> None:
    """VIS-01, VIS-03: from the claim to the record, with times that hosts themselves made."""
    found = applied.gpuaas("timeline", REF).document["result"]
    (created,) = found["operations"]
    names = [phase["name"] for phase in created["phases"]]
    assert names == ["claim", "connect", "work", "look", "record"]
    assert created["name"] == "create" and created["run"] == "run-000001"
    moments = [m for phase in created["phases"] for m in (phase["started"], phase["ended"])]
    assert moments == sorted(moments) and all(moments)
    assert created["progress"] == moments[-1]


def test_another_terminal_sees_how_far_an_apply_is(before: Yard, tmp_path: Path) -> None:
    """VIS-03: while it works, by what hosts tell; once nobody does, that its end is unknown."""
    yard = copy_of(before, tmp_path)
    fleet, plan = yard.fleet(), read_plan(yard.folder / "all.plan")
    steps = [step for step in plan.steps if str(step.ref) == REF]
    with writing(fleet, "apply") as journal:
        run = journal.begin_run(plan)
        journal.begin_wave(
            run,
            WaveIntent(
                steps=tuple(steps), claims=tuple(c for c in plan.claims if str(c.ref) == REF)
            ),
        )
        progress = RunProgress(fleet.state, fleet.now)
        progress.begin(run)
        for phase in ("connect", "converge"):
            progress.tick(HostProgress(node="gpu01", phase=phase))
        assert standing(yard) == {"claim": "done", "connect": "done", "work": "running"}
        assert codes(yard) == set()
    assert standing(yard) == {"claim": "done", "work": "unknown"}
    assert codes(yard) == {"run_unended", "step_unknown", "work_unfinished"}


def standing(yard: Yard) -> dict[str, str]:
    (operation,) = yard.gpuaas("timeline", REF).document["result"]["operations"]
    return {phase["name"]: phase["state"] for phase in operation["phases"]}


def codes(yard: Yard) -> set[str]:
    return {one["code"] for one in yard.gpuaas("doctor").document["result"]}


def test_why_says_commit_rule_approver_and_evidence(applied: Yard) -> None:
    """VIS-06"""
    found = applied.gpuaas("why", "vision/train").document["result"]
    told = {link["about"]: link for link in reversed(found["links"])}
    assert told["placed"]["text"].endswith("Z: the only fit")
    assert told["approved"]["text"].startswith("host, s0, s1 of gpu01 by olga on ")
    assert told["evidence"]["text"].startswith("standin, ")
    assert told["wanted"]["place"]["file"] == "specs/allocation/vision/train.yaml"
    assert [one["text"].split()[0] for one in found["links"] if one["about"] == "let in"] == [
        "ana", "bo", "cem",
    ]  # fmt: skip


def test_evidence_sets_facts_against_what_is_wanted(yard: Yard) -> None:
    """VIS-06: approvals, readiness, facts and the record; a file that went is told to be absent."""
    assert {
        fact["result"] for fact in yard.gpuaas("evidence", REF).document["result"]["facts"]
    } == {"pass"}
    one = next(one for ref, one in yard.world.recorded.items() if str(ref) == REF)
    shutil.rmtree(yard.root("gpu01") / "home" / one.login)
    yard.plan("--refresh")
    found = yard.gpuaas("evidence", REF).document["result"]
    (wrong,) = [fact for fact in found["facts"] if fact["result"] == "fail"]
    assert (wrong["key"], wrong["shown"]) == (f"/home/{one.login}", "")
    assert {check["result"] for check in found["readiness"]} == {"pass"}
    assert found["approvals"] and found["audit"]


def test_a_failed_step_leaves_its_log_and_leads_to_a_runbook(yard: Yard) -> None:
    """VIS-04, RUN-06: the excerpt in what apply says, in the timeline, and the live facts."""
    yard.remove(TRAIN)
    home = yard.root("gpu01") / "home"
    one = next(one for ref, one in yard.world.recorded.items() if str(ref) == REF)
    shutil.rmtree(home / one.login)
    (home / one.login).symlink_to("/tmp")
    done = yard.apply()
    assert done.code == 1
    (operation,) = [
        one
        for one in yard.gpuaas("timeline", REF).document["result"]["operations"]
        if one["state"] == "failed"
    ]
    failed = [phase for phase in operation["phases"] if phase["state"] == "failed"]
    assert failed and any(phase["detail"] for phase in failed)
    doctor = yard.gpuaas("doctor")
    assert doctor.code == 3
    found = {one["code"] for one in doctor.document["result"]}
    assert "run_failed" in found
    for code in found:
        advised = yard.gpuaas("runbook", code).document["result"]
        assert {fact["code"] for fact in advised["facts"]} == {code}
        assert advised["text"].startswith("# ")


def test_activity_is_of_a_project_or_of_all(applied: Yard) -> None:
    """VIS-02"""
    everything = applied.gpuaas("activity", "--last", "100").document["result"]["operations"]
    of_nlp = applied.gpuaas("activity", "--project", "nlp").document["result"]["operations"]
    assert {one["ref"] for one in of_nlp} == {"allocation/nlp/box", "project/nlp"}
    assert {"create", "record"} <= {one["name"] for one in everything}
    assert len(applied.gpuaas("activity", "--last", "3").document["result"]["operations"]) == 3
    numbers = [one["sequence"] for one in everything]
    assert numbers == sorted(numbers, reverse=True), "the newest first, within a second too"


def rows(yard: Yard, *words: str) -> list[str]:
    found = yard.gpuaas("status", *words).document["result"]
    return [row["ref"].removeprefix("allocation/") for row in found["allocations"]]


def test_an_operator_sees_all(applied: Yard) -> None:
    """VIS-09, VIS-12: who holds what, what is free, and that nothing is pending."""
    found = applied.gpuaas("status").document["result"]
    assert rows(applied) == ["nlp/box", "vision/solo", "vision/train"]
    assert {row["sync"] for row in found["allocations"]} == {"in_sync"}
    assert found["gpus"] and found["capacity"] and found["pending"]["changes"] == 0


def test_an_administrator_sees_a_project(applied: Yard) -> None:
    """VIS-09"""
    assert rows(applied, "--project", "nlp") == ["nlp/box"]


def test_a_user_sees_what_is_his_and_how_to_get_in(
    applied: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VIS-09: cem has access to one by its document, and by a grant to the other."""
    monkeypatch.setenv("LOGNAME", "cem")
    assert rows(applied, "--mine") == ["vision/solo", "vision/train"]
    found = applied.gpuaas("status", "--mine").document["result"]
    assert all(row["wayIn"] for row in found["allocations"])


def test_status_says_what_a_plan_would_do(yard: Yard) -> None:
    spec = {**TRAIN["spec"], "access": ["ana"]}
    yard.write({**TRAIN, "spec": spec})
    found = yard.gpuaas("status").document["result"]
    words = {row["ref"]: row["sync"] for row in found["allocations"]}
    assert words[REF] == "changes" and words["allocation/vision/solo"] == "in_sync"
    assert yard.gpuaas("status", "--state-only").document["result"].get("pending") is None
    (yard.specs / "broken.yaml").write_text("kind: [\n")
    found = yard.gpuaas("status").document["result"]
    assert found["pending"]["errors"] == 1
    assert "error" in {need["kind"] for need in found["needsYou"]}


def test_what_is_stale_is_told_apart(applied: Yard) -> None:
    assert rows(applied, "--stale", "1s") in ([], rows(applied))
    assert rows(applied, "--stale", "9999h") == []


def test_a_runbook_needs_no_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RUN-06: it says what to do when there is no state too."""
    assert run(["runbook", "state_missing", "-C", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "unknown: settings_missing" in said and "# The state is lost" in said
    assert run(["runbook", "too_few_free_slots", "-C", str(tmp_path)]) == 0
    assert "# There is no capacity" in capsys.readouterr().out
    assert run(["runbook", "nonsense"]) == 1
