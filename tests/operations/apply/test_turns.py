"""Turns: whoever has another change to make waits for a wave of an apply, and not for all of it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Change, Plan, Risk, Wave
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.revision import Revision
from reconciler.model.state.world import Recorded, World
from reconciler.operations.apply import walk as apply_walk
from reconciler.operations.apply.consent import is_agreed
from reconciler.operations.apply.turns import Turns
from reconciler.store.file.lock import StateLock, is_waited_for
from tests.harness.applied_fleet import BOX, TRAIN
from tests.harness.hanging_host import Apply, hanging, until
from tests.harness.yard import Yard
from tests.journeys.access.test_key_files import TRAIN_REF
from tests.store.records import make_claim, make_observation, make_recorded, make_step

BOX_REF = "allocation/nlp/box"
MOVED = {**TRAIN, "spec": {**TRAIN["spec"], "sku": "slice-1", "node": "gpu02"}}
"""A place on gpu02 in the first wave; that on gpu01 is given up in the second."""
SHARED = {**BOX, "spec": {**BOX["spec"], "access": ["ana"]}}

APPLY = """
import sys
from reconciler.cli.main import run
words = ["apply", "--auto-approve=destroys", "--lock-timeout=3m", "-o", "json", *sys.argv[2:]]
sys.exit(run(["-C", sys.argv[1], *words]))
"""


def other(yard: Yard, *words: str) -> subprocess.Popen[str]:
    """The apply of somebody else, who waits by now."""
    lock = yard.folder / "state/wanted"
    assert not lock.exists()
    started = yard.python(APPLY, *words)
    until(lock.exists)
    return started


def ended(one: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = one.communicate(timeout=240)
    return one.returncode, out


def test_another_change_waits_for_a_wave_alone(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-24: it is made between two waves; then the first goes on with what was agreed to."""
    before = max(number for (number,) in yard.rows("SELECT number FROM run"))
    yard.write(MOVED)
    yard.commit()
    with hanging(monkeypatch, tmp_path / "hang", "gpu02") as let_go:
        first = Apply(yard)
        until(lambda: (tmp_path / "hang/begun-gpu02").exists())
        yard.write(SHARED)
        yard.commit()
        second = other(yard, "--only", BOX_REF)
        let_go()
        done = first.end()
    code, said = ended(second)
    assert code == 0, said
    assert (done.problems, done.left, done.interrupted) == ((), (), False)
    work = [(number - before, ref) for number, ref in worked(yard, before)]
    assert work == [(1, TRAIN_REF), (2, BOX_REF), (3, TRAIN_REF)]
    assert "ana" in {key.partition("/")[0] for key in yard.keys(BOX_REF)}
    assert_all_is_well(yard)


def test_what_others_did_meanwhile_is_done(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-24: an apply of everything takes the rest along, and the first has nothing left."""
    yard.write(MOVED)
    yard.commit()
    with hanging(monkeypatch, tmp_path / "hang", "gpu02") as let_go:
        first = Apply(yard)
        until(lambda: (tmp_path / "hang/begun-gpu02").exists())
        second = other(yard)
        let_go()
        done = first.end()
    code, said = ended(second)
    assert code == 0, said
    assert (done.problems, done.left, done.interrupted) == ((), (), False)
    assert_all_is_well(yard)


def test_who_gave_up_waiting_is_not_given_way(tmp_path: Path) -> None:
    """F-REAL-24: a command that found the lock taken and went away has no turn to take."""
    lock = tmp_path / "lock"
    with StateLock(lock, actor="olga", command="apply"):
        assert not is_waited_for(lock)
        (tmp_path / "wanted").touch()
        assert not is_waited_for(lock)


def assert_all_is_well(yard: Yard) -> None:
    assert yard.recorded(TRAIN_REF).node == "gpu02"
    assert not [place for place in yard.claims if place.startswith(f"{TRAIN_REF}@gpu01")]
    assert yard.plan("--detailed-exitcode").actions == {}
    assert yard.gpuaas("state", "check").code == 0


def worked(yard: Yard, after: int) -> list[tuple[int, str]]:
    """The run and what it worked on, by runs in their order."""
    return [
        (number, ref)
        for number, ref in yard.rows(
            "SELECT DISTINCT run.number, step.ref FROM run JOIN step ON step.run = run.id"
            " WHERE run.number > ? ORDER BY run.number",
            after,
        )
    ]


def line(name: str, **changes: Any) -> Change:
    given: dict[str, Any] = {"digest": "sha256:1", "risk": Risk.INTERRUPTS, **changes}
    return Change(ref=Ref("allocation", "nlp", name), action=Action.REPLACE, **given)


def plan(*changes: Change) -> Plan:
    return Plan(
        revision=Revision(),
        desired_digest="sha256:0",
        state_id="s",
        serial=1,
        made_at="2026-01-01T12:00:00Z",
        changes=changes,
    )


B = line("b").ref
NOTHING = World(state_id="s", serial=1, recorded={})


def never(only: tuple[str, ...]) -> Plan:
    raise AssertionError("no other plan is needed")


OTHERWISE = pytest.mark.parametrize(
    "now",
    [
        line("a", digest="sha256:2"),
        line("a", risk=Risk.DESTROYS),
        replace(line("a"), action=Action.RELEASE),
        line("a", basis="sha256:3"),
        line("a", problem=Problem(code="sku_unavailable", message="x")),
    ],
)


@OTHERWISE
def test_what_would_be_done_otherwise_is_left_and_told(now: Change) -> None:
    """F-REAL-24: nobody has agreed to it."""
    made: list[tuple[str, ...]] = []

    def make(only: tuple[str, ...]) -> Plan:
        made.append(only)
        return plan(line("b"))

    shown = Turns(plan(line("a"), line("b")))
    turns, rest = shown.within(NOTHING, plan(now, line("b"), line("new")), make)
    assert made == [("allocation/nlp/b",)]
    assert rest is not None and [change.ref.name for change in rest.active] == ["b"]
    wanted = now.problem.code if now.problem else "changed_meanwhile"
    assert [problem.code for problem in turns.problems] == [wanted]
    assert set(turns.left) == {B}, "what is told of is not taken up again"


def test_another_place_for_the_same_is_agreed_to() -> None:
    """F-REAL-24: whoever had their turn may have taken the one that was shown."""
    fresh = plan(line("a", allocation_id="a-1", steps=("s1",)))
    world = replace(NOTHING, recorded={B: AS_SHOWN})
    turns, rest = Turns(plan(line("a", steps=("s0",)), line("b"))).within(world, fresh, never)
    assert rest == fresh
    assert ([c.ref.name for c in turns.settled], turns.problems) == (["b"], ())


RELEASED = Change(ref=B, action=Action.RELEASE, risk=Risk.DESTROYS)
SOME_TIME = replace(RELEASED, undo_minutes=5)
AS_SHOWN = replace(make_recorded("b"), ref=B, digest="sha256:1")
CLAIMED = replace(make_claim("b"), ref=B)
SEEN, SILENT = make_observation(), make_observation(problem="host_unreachable")


@pytest.mark.parametrize(
    ("shown", "recorded", "changes", "is_done"),
    [
        (line("b"), AS_SHOWN, {}, True),
        (line("b"), make_recorded("b"), {}, False),
        (line("b"), None, {}, False),
        (line("b", basis="sha256:9"), replace(AS_SHOWN, basis=""), {}, False),
        (line("b"), AS_SHOWN, {"observations": {"gpu01": SILENT}}, False),
        (line("b"), AS_SHOWN, {"observations": {}}, False),
        (RELEASED, None, {}, True),
        (RELEASED, None, {"claims": (CLAIMED,)}, False),
        (RELEASED, AS_SHOWN, {}, False),
        (SOME_TIME, replace(AS_SHOWN, phase=Phase.QUARANTINED), {}, True),
        (SOME_TIME, AS_SHOWN, {}, False),
    ],
)
def test_what_is_not_planned_any_more_is_done_if_the_state_shows_it(
    shown: Change, recorded: Recorded | None, changes: dict[str, Any], is_done: bool
) -> None:
    """F-REAL-24: the other one may have taken the wish away, or nobody sees what is left of it."""
    step = replace(make_step("b", "gpu01"), ref=B)
    world = replace(NOTHING, recorded={B: recorded} if recorded else {})
    world = replace(world, **{"observations": {"gpu01": SEEN}, **changes})
    agreed = replace(plan(shown), waves=(Wave(number=1, steps=(step,)),))
    turns, rest = Turns(agreed).within(world, plan(), never)
    assert rest is None and [change.ref for change in turns.settled] == ([B] if is_done else [])
    told = [] if is_done else ["changed_meanwhile"]
    assert [problem.code for problem in turns.problems] == told


@pytest.mark.parametrize("limited", [(line("a"), line("new")), (line("a", risk=Risk.DESTROYS),)])
def test_where_the_same_alone_cannot_be_had_nothing_is_done(limited: tuple[Change, ...]) -> None:
    """F-REAL-24: what it needs now, and nobody was shown, is not done along with it."""
    everything = plan(line("a"), line("new"))
    turns, rest = Turns(plan(line("a"))).within(NOTHING, everything, lambda only: plan(*limited))
    assert rest is None
    assert [problem.code for problem in turns.problems] == ["changed_meanwhile"]


def test_what_was_written_down_first_has_begun() -> None:
    """F-REAL-24: a version is known, and a name is the new one, before hosts have anything."""
    bundle = replace(line("x"), ref=Ref("bundle", "", "x"), action=Action.CREATE)
    renamed = line("b", former=Ref("allocation", "nlp", "old"))
    by_now = plan(replace(bundle, action=Action.STAGE), replace(line("b"), action=Action.CHANGE))
    turns, rest = Turns(plan(bundle, renamed)).within(NOTHING, by_now, never)
    assert (rest, turns.problems) == (by_now, ())


def outcome(name: str, verb: str = "access.sync", *, ok: bool = True) -> StepOutcome:
    step = replace(make_step(name, "gpu01"), id=f"{verb}-{name}", verb=verb, ref=line(name).ref)
    return StepOutcome(step=step, ok=ok, changed=True)


@pytest.mark.parametrize(
    ("done", "earlier", "action", "is_to"),
    [
        (outcome("a"), (), Action.REPLACE, True),
        (outcome("a"), ("access.sync-a",), Action.REPLACE, False),
        (outcome("a"), ("access.sync-b",), Action.REPLACE, True),
        (outcome("a"), (), Action.RESTART, False),
        (outcome("a", "node.prepare", ok=False), (), Action.REPLACE, False),
        (outcome("a", "node.prepare"), (), Action.REPLACE, True),
        (None, (), Action.REPLACE, False),
    ],
)
def test_a_turn_ends_where_nobody_is_hurt_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    done: StepOutcome | None,
    earlier: tuple[str, ...],
    action: Action,
    is_to: bool,
) -> None:
    """F-REAL-24: not before something new is done, after a host was harmed, or amid a restart."""
    monkeypatch.setattr(apply_walk, "is_waited_for", lambda lock: True)
    rest = outcome("a", "allocation.provide").step
    walk: Any = SimpleNamespace(
        gives_way=True,
        interrupts=SimpleNamespace(asked=False),
        outcomes={done.step.id: done} if done else {},
        earlier=frozenset(earlier),
        plan=replace(
            plan(replace(line("a"), action=action)), waves=(Wave(number=1, steps=(rest,)),)
        ),
        at=0,
        failed=set(),
        fleet=SimpleNamespace(state=tmp_path),
    )
    assert apply_walk.Walk._is_to_give_way(walk) is is_to


@pytest.mark.parametrize("begun", [(), (B,)])
@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        (SOME_TIME, True),
        (replace(SOME_TIME, undo_minutes=0), False),
        (replace(SOME_TIME, allocation_id="another"), False),
    ],
)
def test_a_release_is_of_whom_was_shown_and_is_undone_as_shown(
    now: Change, is_same: bool, begun: tuple[Ref, ...]
) -> None:
    """F-REAL-24: another of that name may have come and be about to go, even if one has begun."""
    assert is_agreed(now, SOME_TIME, begun) is is_same
