"""Diagnoses: a case for every rule that it fires on, and one that it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from reconciler.model.codes import CODES
from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import Observation, ProbeProblem
from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase, RunState, StepState
from reconciler.model.ref import Ref
from reconciler.model.runbooks import RUNBOOKS
from reconciler.model.state.failure import Failure, basis_of
from reconciler.model.state.install import Install, InstallState
from reconciler.model.state.lock import LockHolder
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import (
    Doubt,
    DoubtKind,
    OpenStep,
    Recorded,
    Revocation,
    Suspension,
    World,
)
from reconciler.model.symptom import SYMPTOMS, WANTS_SOMEBODY, Diagnosis, Sort
from reconciler.operations.liveness.diagnosis import ROWS as LOOP
from reconciler.operations.reconcile.holds import OVER
from reconciler.planner.diagnosis.context import Chart, RunNow
from reconciler.planner.diagnosis.rules import RULES, diagnose
from reconciler.planner.placement.inventory import read_offers
from tests.planner import fleet as paper

NOW = paper.NOW
TRAIN, DATA = Ref("allocation", "vision", "train"), Ref("storage", "vision", "data")
DESIRED = paper.desired(paper.base_fleet(nodes=1))


def at(**ago: float) -> str:
    return format_moment(NOW - timedelta(**ago))


def recorded(**changes: Any) -> Recorded:
    normal = {"labels": {}, "spec": {"owner": "ana", "sku": "slice-1"}}
    place = {"id": "train-id", "node": "gpu01", "slots": ("s0",), "basis": "b"}
    return Recorded(ref=TRAIN, normal=normal, digest="d", **{**place, **changes})


def chart(run: RunNow | None = None, now: datetime = NOW, **changes: Any) -> Chart:
    """A fleet in which all is well, but for what a test changes."""
    kept = {TRAIN: recorded(expires_at=at(days=-30)), **changes.pop("recorded", {})}
    claims = changes.pop("claims", (paper.claim("train", "gpu01", "s0"),))
    world = paper.world(DESIRED, recorded=kept, claims=claims, **changes)
    return Chart(world=world, offers=read_offers(DESIRED, world, now, {}), now=now, run=run)


def silent(problem: str = "host_unreachable") -> Mapping[str, Observation]:
    since = at(minutes=22)
    one = Observation(node="gpu01", at=at(), problem=problem, message="no route",
                      unreachable_since=since)  # fmt: skip
    return {"gpu01": one}


def run(state: RunState, *, living: bool = False, **ago: float) -> RunNow:
    return RunNow(id="run-000007", state=state, moved=at(**ago), living=living)


def open_step(run_: str = "run-000006") -> OpenStep:
    return OpenStep(run=run_, step="s", ref=TRAIN, verb="allocation.provide", node="gpu01",
                    state=StepState.UNKNOWN, started=at(hours=1))  # fmt: skip


def strays() -> Mapping[str, Observation]:
    (node,) = DESIRED.of("node")
    return {"gpu01": paper.observation(node, stray_keys={"train-id": ("SHA256:q0",)})}


def shut(fact: str) -> Chart:
    (node,) = DESIRED.of("node")
    seen = paper.observation(node, platform={"login *": "listed", "login train-id": fact})
    one = recorded(login="train-id", expires_at=at(days=-30))
    return chart(recorded={TRAIN: one}, observations={"gpu01": seen})


DEAD = ProbeProblem(probe="gpus", message="nvidia-smi ended with 18: mismatch")


def seen(**facts: Any) -> Mapping[str, Observation]:
    (node,) = DESIRED.of("node")
    return {"gpu01": paper.observation(node, **facts)}


def shown_as(fact: str) -> Chart:
    """An allocation that was made with a folder of mode 0750, and what its host shows of that."""
    one = recorded(facts={"/srv/x": "dir 0750"})
    return chart(recorded={TRAIN: one}, observations=seen(paths={"/srv/x": fact}))


def install(state: InstallState) -> Install:
    problem = "runtime_hash_wrong: not the one that was agreed"
    place = {"node": "gpu01", "bundle": "jupyter", "version": "1", "since": at(hours=1)}
    return Install(**place, lock_digest="d", state=state, problem=problem)


def evacuating(until: str) -> Chart:
    spec = paper.node("gpu01", admin={"state": "evacuating", "until": until, "reason": "PSU"})
    documents = [d for d in paper.base_fleet(nodes=1) if d["kind"] != "Node"]
    desired = paper.desired([*documents, spec])
    world = paper.world(desired, claims=(paper.claim("train", "gpu01", "s0"),))
    return Chart(world=world, offers=read_offers(desired, world, NOW, {}), now=NOW)


def blocked_claim(state: ClaimState, **changes: Any) -> Chart:
    return chart(claims=(paper.claim("train", "gpu01", "s0", state=state, **changes),))


def quarantined(until: str) -> Chart:
    return chart(recorded={TRAIN: recorded(phase=Phase.QUARANTINED, undo_until=until)})


def suspended(until: str) -> Chart:
    one = Suspension(
        scope="node/gpu01", reason="PSU smoke", actor="olga", since=at(hours=2), until=until
    )
    return chart(suspensions=(one,))


def revoked() -> Chart:
    one = Revocation(ref=TRAIN, node="gpu01", people=("bo",), since=at(minutes=22))
    return chart(revocations=(one,))


def doubted(kind: DoubtKind) -> Chart:
    return chart(doubts=(Doubt(node="gpu01", kind=kind, reason="restored", since=at(hours=1)),))


def stored(state: VolumeState = VolumeState.MADE, *, allocation_id: str) -> Chart:
    """A storage that an allocation of that id has."""
    volume = Volume(id="v", ref=DATA, class_name="local", state=state, since=at(hours=1))
    one = Attachment(
        allocation_id=allocation_id, volume="v", ref=TRAIN, storage=DATA, node="gpu01",
        mode="rw", access="single_writer", mount_path="/data/data",
    )  # fmt: skip
    return chart(volumes={DATA: volume}, attachments=(one,))


def failure(count: int) -> Failure:
    (node,) = DESIRED.of("node")
    return Failure(
        basis=basis_of(paper.observation(node).facts),
        node="gpu01",
        count=count,
        since=at(hours=1),
        at=at(minutes=1),
        verb="allocation.provide",
        ref=TRAIN,
        code="step_failed",
        message="its /home is a link",
    )


CASES: Mapping[str, tuple[Callable[[], Chart], Callable[[], Chart], str]] = {
    "revocation_pending": (revoked, chart, "revocation of bo on gpu01 pending 22 min"),
    "stray_key": (
        lambda: chart(observations=strays()),
        chart,
        "a key of people's own in the home of train-id",
    ),
    "login_refused": (
        lambda: shut("refused: PAM: Permission denied"),
        lambda: shut("admitted"),
        "allocation/vision/train on gpu01: login train-id is refused: PAM: Permission denied",
    ),
    "access_drift": (
        lambda: chart(observations=seen(paths={"/etc/gpuaas/ssh/mallory": "file 0644 x"})),
        lambda: chart(observations=seen(paths={"/etc/gpuaas/ssh": "dir 0755"})),
        "node/gpu01: /etc/gpuaas/ssh/mallory is there, and nobody's of ours",
    ),
    "cleanup_blocked": (
        lambda: blocked_claim(ClaimState.CLEANUP_BLOCKED, problem="processes fail: 8812"),
        lambda: blocked_claim(ClaimState.RELEASING),
        "gpu01/s0 processes fail: 8812",
    ),
    "sku_unavailable": (
        lambda: chart(waiting={TRAIN: at(hours=3)}),
        chart,
        "allocation/vision/train sku_unavailable, waiting 3 h",
    ),
    "host_unreachable": (lambda: chart(observations=silent()), chart, "node/gpu01 host_unreach"),
    "host_unfit": (
        lambda: chart(observations=seen(problems=(DEAD,))),
        lambda: chart(observations=seen()),
        "node/gpu01 probe gpus: unknown, nvidia-smi ended with 18: mismatch; asked",
    ),
    "allocation_degraded": (
        lambda: shown_as("dir 0755"),
        lambda: shown_as("dir 0750"),
        "allocation/vision/train on gpu01: /srv/x is dir 0755",
    ),
    "bundle_failed": (
        lambda: chart(installs=(install(InstallState.FAILED),)),
        lambda: chart(installs=(install(InstallState.STAGED),)),
        "bundle/jupyter@1 on gpu01: runtime_hash_wrong: not the one that was agreed",
    ),
    "node_in_doubt": (lambda: doubted(DoubtKind.UNSEEN), chart, "node/gpu01 in doubt, unseen"),
    "node_failing": (
        lambda: chart(failures={"gpu01": failure(3)}),
        chart,
        "node/gpu01 failed 3 times",
    ),
    "run_stalled": (
        lambda: chart(run(RunState.RUNNING, living=True, minutes=10)),
        lambda: chart(run(RunState.RUNNING, living=True, minutes=1)),
        "run-000007 has not moved for 10 min",
    ),
    "run_unended": (
        lambda: chart(run(RunState.RUNNING, minutes=10)),
        lambda: chart(run(RunState.RUNNING, living=True)),
        "run-000007 ended without a word, last heard 10 min ago",
    ),
    "run_failed": (
        lambda: chart(run(RunState.FAILED)),
        lambda: chart(run(RunState.DONE)),
        "run-000007 failed",
    ),
    "step_unknown": (
        lambda: chart(open_steps=(open_step(),)),
        lambda: chart(run(RunState.RUNNING, living=True), open_steps=(open_step("run-000007"),)),
        "allocation.provide of allocation/vision/train on gpu01 in run-000006",
    ),
    "work_unfinished": (
        lambda: blocked_claim(ClaimState.RELEASING),
        lambda: replace(
            blocked_claim(ClaimState.RELEASING), run=run(RunState.RUNNING, living=True)
        ),
        "its release was begun and not finished",
    ),
    "storage_left": (
        lambda: stored(allocation_id="gone-id"),
        lambda: stored(allocation_id="train-id"),
        "storage/vision/data may still be attached to allocation/vision/train on gpu01",
    ),
    "wipe_unfinished": (
        lambda: stored(VolumeState.WIPING, allocation_id="train-id"),
        lambda: replace(
            stored(VolumeState.WIPING, allocation_id="train-id"),
            run=run(RunState.RUNNING, living=True),
        ),
        "storage/vision/data: the wipe of its data was begun and not finished",
    ),
    "lease_over": (
        lambda: chart(recorded={TRAIN: recorded(expires_at=at(days=2))}),
        lambda: chart(recorded={TRAIN: recorded(expires_at="")}),
        "allocation/vision/train ended 2 d ago (ana)",
    ),
    "quarantine_over": (
        lambda: quarantined(at(minutes=1)),
        lambda: quarantined(at(minutes=-1)),
        "allocation/vision/train is to be wiped since",
    ),
    "evacuation_over": (
        lambda: evacuating(at(hours=1)),
        lambda: evacuating(at(hours=-1)),
        "node/gpu01 was to be empty by",
    ),
    "suspension_over": (
        lambda: suspended(at(minutes=5)),
        lambda: suspended(""),
        "node/gpu01 was suspended until",
    ),
    "allocation_in_doubt": (
        lambda: chart(recorded={TRAIN: recorded(basis="")}),
        chart,
        "allocation/vision/train on gpu01 is to be looked at anew",
    ),
    "evidence_stale": (
        lambda: chart(now=NOW + timedelta(hours=3)),
        lambda: chart(observations=silent()),
        "node/gpu01 last said something 3 h ago, which counts for 60 min",
    ),
    "never_observed": (
        lambda: chart(observations={}),
        chart,
        "node/gpu01 was never looked at",
    ),
    "lease_ending": (
        lambda: chart(recorded={TRAIN: recorded(expires_at=at(hours=-20))}),
        lambda: chart(recorded={TRAIN: recorded(expires_at=at(hours=-25))}),
        "allocation/vision/train in 20 h (ana)",
    ),
    "quarantine_open": (
        lambda: quarantined(at(minutes=-1)),
        lambda: quarantined(at(minutes=1)),
        "a git revert restores it until",
    ),
}


def codes(found: Chart) -> list[str]:
    return [one.code for one in diagnose(found)]


def test_every_rule_has_its_case() -> None:
    assert list(CASES) == [rule.code for rule in RULES]


@pytest.mark.parametrize("code", CASES)
def test_a_rule_fires_where_it_should_and_nowhere_else(code: str) -> None:
    """F-PLC-07, VIS-03: what is stuck, overdue or stale is found, by one row of the table."""
    wrong, right, text = CASES[code]
    (found,) = [one for one in diagnose(wrong()) if one.code == code]
    assert text in found.text
    assert found.command.startswith("gpuaas ")
    assert code not in codes(right())


def test_all_is_well() -> None:
    assert list(diagnose(chart())) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_finding_has_a_runbook(rule: Any) -> None:
    """RUN-06: whatever is stuck, overdue or stale links to one."""
    assert rule.code in RUNBOOKS
    assert rule.code in CODES or rule.code in SYMPTOMS
    assert rule.needs or rule.sort is not Sort.ALARM


def test_symptoms_are_those_of_the_rules() -> None:
    """Those of the loop are no plan's: it tells them of itself."""
    told = {rule.code for rule in RULES} | {row.code for row in LOOP.values()} | {OVER}
    assert SYMPTOMS.keys() - told == set()


def test_a_host_is_told_by_its_own_code() -> None:
    found = chart(observations=silent("host_identity_changed"))
    (one,) = [one for one in diagnose(found) if one.about == "node/gpu01"]
    assert one == Diagnosis(
        sort=Sort.STUCK,
        code="host_identity_changed",
        about="node/gpu01",
        text="node/gpu01 host_identity_changed: no route",
        since=at(minutes=22),
        command="gpuaas node show gpu01",
        needs="unknown",
    )


def test_what_only_ends_soon_needs_nobody() -> None:
    assert Sort.ENDING not in WANTS_SOMEBODY
    assert Sort.STALE not in WANTS_SOMEBODY


def test_a_creation_that_nobody_recorded_is_unfinished() -> None:
    """RUN-05: stuck in create."""
    world: World = replace(chart().world, recorded={})
    (one,) = [o for o in diagnose(replace(chart(), world=world)) if o.code == "work_unfinished"]
    assert "its creation was begun" in one.text


def test_a_dead_driver_is_told_in_its_own_words_first() -> None:
    """F-REAL-14: not that something did not answer, but what it said."""
    found = chart(observations=seen(gpus=None, card_errors=None, problems=(DEAD,)))
    unfit = [one for one in diagnose(found) if one.code == "host_unfit"]
    assert "nvidia-smi ended with 18: mismatch" in unfit[0].text
    assert {one.needs for one in unfit} == {"unfit"}
    assert len(unfit) == 4


def test_whom_a_tenant_lets_into_a_folder_of_his_own_is_no_finding() -> None:
    """F-REAL-14: but that it is gone is one."""
    home = {"/home/train-1": "dir 0700"}
    for fact, number in (("dir 0755", 0), (None, 1)):
        paths = {"/home/train-1": fact} if fact else {}
        found = chart(recorded={TRAIN: recorded(facts=home)}, observations=seen(paths=paths))
        assert codes(found).count("allocation_degraded") == number


def test_keys_in_a_managed_file_of_an_allocation_are_an_alarm() -> None:
    """F-REAL-14: a stranger's line in the file that sshd reads."""
    keys = "/etc/gpuaas/ssh/train-1"
    made, now = "file 0644 sha256:a", "file 0644 sha256:b"
    found = chart(
        recorded={TRAIN: recorded(login="train-1", facts={keys: made})},
        observations=seen(paths={keys: now}),
    )
    (one,) = [one for one in diagnose(found) if one.code == "access_drift"]
    assert (one.sort, one.needs) == (Sort.ALARM, "alarm")
    assert "its keys on gpu01" in one.text


def test_everything_that_is_found_stands_in_status() -> None:
    """F-REAL-14."""
    assert [rule.code for rule in RULES if not rule.needs] == []


def test_a_stopped_holder_of_the_lock_is_told_with_the_way_on() -> None:
    """F-REAL-20: whatever run it is in, and at once."""
    who = LockHolder(
        pid=4711, start=1, host="h", boot_id="b", since=at(), actor="olga", command="apply"
    )
    (one,) = diagnose(replace(chart(), stopped=who))
    assert (one.code, one.command) == ("run_stalled", "kill -CONT 4711")
    assert "pid 4711 of olga (apply) holds the lock and is stopped" in one.text


def test_one_host_does_not_drown_the_others() -> None:
    """What it says has no end that would keep what is told of others from being found."""
    (node,) = DESIRED.of("node")
    keys = {f"x{number:05}": ("SHA256:q0",) for number in range(5000)}
    found = list(diagnose(chart(observations={"gpu01": paper.observation(node, stray_keys=keys)})))
    assert [one.code for one in found] == ["stray_key"] * 21
    assert found[-1].text == "node/gpu01: 4980 more of this"
