"""What is told of the steps of a wave: a host that is away is one problem, not one a step."""

from __future__ import annotations

from datetime import timedelta

from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.operations.apply.failures import OF_HOSTS, tell
from reconciler.operations.fleet import utc_now
from reconciler.operations.observe import LATELY, Looks
from tests.harness.items import make_item


def outcome(node: str, name: str, code: str, *, unknown: bool = False) -> StepOutcome:
    step = Step(
        id=f"{node}-{name}",
        verb="access.sync",
        node=node,
        ref=Ref("allocation", "vision", name),
        order=Order.RETIRE,
        item=make_item("access.sync"),
    )
    problem = Problem(code=code, message=f"{node}: {code}", ref=str(step.ref)) if code else None
    return StepOutcome(step=step, ok=not code, changed=False, unknown=unknown, problem=problem)


def test_a_host_is_told_of_once_and_with_a_next_step() -> None:
    """F-ANS-02: each host with each cause, and in how many steps it shows."""
    told = tell(
        [
            outcome("n1", "a", "host_unreachable"),
            outcome("n2", "b", "host_timeout", unknown=True),
            outcome("n1", "c", "host_unreachable"),
            outcome("n3", "d", ""),
        ]
    )
    assert [(p.ref, p.code, p.message) for p in told] == [
        ("node/n1", "host_unreachable", "n1: host_unreachable; 2 steps not done"),
        ("node/n2", "host_timeout", "n2: host_timeout; what became of 1 step is unknown"),
    ]
    assert all(problem.hint for problem in told)
    assert all(OF_HOSTS.values())


def test_what_is_wrong_with_a_step_is_told_of_that_step() -> None:
    told = tell([outcome("n1", name, "verb_failed") for name in ("a", "b")])
    assert [p.ref for p in told] == ["allocation/vision/a", "allocation/vision/b"]


def test_a_host_is_not_waited_for_twice_by_one_command() -> None:
    """Nor asked for work in vain; after a while, or by another command, it is looked at again."""
    now, looks = utc_now(), Looks()
    assert looks.due(["n1", "n2"], now) == {"n1", "n2"}
    assert looks.due(["n1", "n3"], now + LATELY) == {"n3"}
    assert looks.due(["n1"], now + LATELY + timedelta(seconds=1)) == {"n1"}
    assert looks.due(["n1"], now - timedelta(days=1)) == {"n1"}, "the clock was set back"
    assert Looks().due(["n1"], now) == {"n1"}
    seen = {
        name: Observation(node=name, at="", problem=problem)
        for name, problem in {"n1": "host_unreachable", "n2": "host_timeout", "n9": "x"}.items()
    }
    world = World(state_id="s", serial=0, recorded={}, observations=seen)
    assert looks.silent(world) == {"n1": seen["n1"]}, "who is only slow is asked all the same"
