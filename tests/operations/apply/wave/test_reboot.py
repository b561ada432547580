"""Waiting for hosts that start anew: only another boot that shows everything is an end of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.plan.work import Host, Receipt
from reconciler.model.ref import Ref
from reconciler.operations.apply.wave.reboot import (
    NOT_BACK,
    Boot,
    RebootPatience,
    RebootState,
    await_boots,
)
from reconciler.planner.proof.verify_step import judge
from tests.harness.items import make_item

OLD, NEW = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
DONE = {"abcdefghij": "generation 3"}
STEP = Step(
    id="s",
    verb=Verb.RESTART,
    node="gpu01",
    ref=Ref("allocation", "vision", "box"),
    order=Order.PROVIDE,
    item=make_item(Verb.RESTART, id="abcdefghij", reboot=True),
    expected={"restart abcdefghij": "generation 3"},
)
BOOT = Boot(
    host=Host(node="gpu01", address="10.0.0.1", root="/", isolation="account", boot_id=OLD),
    step=STEP,
)


def seen(boot_id: str, restarts: Mapping[str, str] | None = None) -> Observation:
    facts = NodeFacts(source="host", boot_id=boot_id, restarts=restarts)
    return Observation(node="gpu01", at="", facts=facts)


def silent(problem: str = "host_unreachable", message: str = "refused") -> Observation:
    return Observation(node="gpu01", at="", problem=problem, message=message)


BEFORE, BACK = seen(OLD, {}), seen(NEW, DONE)


@dataclass
class Timeline:
    """A host that shows each of these until its second has come, and a clock that tests turn."""

    shows: Sequence[tuple[float, Observation]]
    now: float = 0.0
    looks: list[float] = field(default_factory=list)

    def look(self, hosts: Sequence[Host]) -> Mapping[str, Observation]:
        self.looks.append(self.now)
        return {"gpu01": next(one for until, one in self.shows if self.now < until)}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, limit: float = 900.0, stop: float = 1e9) -> Observation | None:
        patience = RebootPatience(limit=limit, clock=lambda: self.now, sleep=self.sleep)
        found = await_boots([BOOT], self.look, lambda: self.now >= stop, patience)
        return found.get("gpu01")


def outcome(observation: Observation | None) -> str:
    """What the step comes to by that look: `done`, or the code of its problem."""
    receipt = Receipt(step="s", node="gpu01", verb=Verb.RESTART, ok=True, changed=True)
    problem = judge(STEP, receipt, observation).problem
    return problem.code if problem else "done"


@pytest.mark.parametrize(
    ("observation", "sight"),
    [
        (silent(), RebootState.DOWN),
        (silent("host_timeout"), RebootState.DOWN),
        (silent("host_answer_invalid"), RebootState.DOWN),
        (seen(""), RebootState.DOWN),
        (seen("cat: boot_id: No such file"), RebootState.DOWN),
        (
            seen("System is going down. Unprivileged users are not permitted", DONE),
            RebootState.DOWN,
        ),
        (BEFORE, RebootState.BEFORE),
        (seen(OLD, DONE), RebootState.BEFORE),
        (seen(NEW, {"abcdefghij": "generation 3 ordered"}), RebootState.STARTING),
        (seen(NEW), RebootState.STARTING),
        (BACK, RebootState.BACK),
        (silent("host_identity_changed"), RebootState.CHANGED),
    ],
)
def test_what_one_look_says(observation: Observation, sight: RebootState) -> None:
    """F-ANS-09: an error text is no boot id, and a boot id alone is no health."""
    assert BOOT.judge(observation) is sight


def test_a_slow_shutdown_and_errors_on_the_way_are_waited_out() -> None:
    """F-ANS-09: the same boot for 40 s after the order, then errors, then another boot."""
    line = Timeline(
        [
            (40, BEFORE),
            (60, silent()),
            (70, seen("ssh: error")),
            (80, seen(NEW, None)),
            (1e9, BACK),
        ]
    )
    assert outcome(line.wait()) == "done"
    assert 80 <= line.now < 90


def test_a_boot_that_never_changes_is_not_waited_for_for_ever() -> None:
    """F-ANS-09: what it shows then proves nothing, and it is said that it never went down."""
    found = Timeline([(1e9, seen(OLD, DONE))]).wait()
    assert found is not None and found.facts is None
    assert outcome(found) == NOT_BACK
    assert found.message == (
        "it did not come back within 15 min;"
        " it answers, and is still in the boot that it was to leave"
    )


def test_one_that_comes_back_after_the_limit_has_not_come_back() -> None:
    """F-ANS-09: a clear word; the next look finds it, and then it is not restarted again."""
    line = Timeline([(10, BEFORE), (1000, silent(message="no route")), (1e9, BACK)])
    found = line.wait()
    assert found is not None and outcome(found) == NOT_BACK
    assert "it does not answer: no route" in found.message
    assert 900 <= line.now < 910


def test_another_key_is_said_at_once_and_not_waited_out() -> None:
    """F-ANS-10: within seconds, under its own name; nobody accepts it."""
    line = Timeline([(5, silent()), (1e9, silent("host_identity_changed", "another host key"))])
    assert outcome(line.wait()) == "host_identity_changed"
    assert line.now < 10


def test_devices_that_do_not_come_back_are_given_two_minutes_and_then_named() -> None:
    """F-PLC-10: the host is up and shows less than it should: that is what is judged."""
    line = Timeline([(20, silent()), (1e9, seen(NEW, {}))])
    assert outcome(line.wait()) == "evidence_mismatch"
    assert 140 <= line.now < 150


def test_who_wants_to_stop_leaves_it_to_the_next_look() -> None:
    line = Timeline([(1e9, silent())])
    assert line.wait(stop=9) is None
    assert line.now < 12
