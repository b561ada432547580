"""A real host that stops in its work: others are served, and the next apply ends well."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from reconciler.hosts.ansible import executor
from tests.lab.breaking import wedged
from tests.lab.colony import ALLOCATIONS, Colony, allocation, wait_until
from tests.lab.console import console
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

FRESH = paper.allocation("fresh", node="c3")
SHARED = allocation("vision/sweep", access=["ana", "cem"])
"""On c2, to which nothing happens, and where Cem is let in by the same apply."""

STOP = "pkill -STOP -x useradd; pkill -STOP -f 'python3 -IS -$'"


@pytest.fixture
def as_before(colony: Colony) -> Iterator[None]:
    yield
    colony.gpuaas("resume", "user/cem", "--reason", "over")
    more = [FRESH] if colony.file(FRESH).exists() else []
    back = colony.change(*map(allocation, ALLOCATIONS), but=more)
    assert back.code == 0, back.messages or back.blocked
    assert set(colony.refs) == set(ALLOCATIONS)


def opens(colony: Colony, ref: str, key: str) -> bool:
    return colony.enter(ref, key, "true").returncode == 0


@pytest.mark.usefixtures("as_before")
def test_a_host_that_stops_holds_up_nobody(colony: Colony, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-24, F-REAL-25: who is on another host gets in and is shut out meanwhile; and what was
    stopped is taken over.
    """
    monkeypatch.setattr(executor, "budget_of", lambda steps, most: 240.0)
    told: dict[str, object] = {}

    def meanwhile() -> None:
        console(colony.machines["c3"], STOP)
        began = time.monotonic()
        wait_until(lambda: opens(colony, "vision/sweep", "cem"), 60)
        told["let in"] = time.monotonic() - began
        said = colony.shell("suspend", "user/cem", "--reason", "lost a laptop")
        told["suspended"], told["said"] = said.returncode, said.stdout + said.stderr
        told["shut out"] = not opens(colony, "vision/sweep", "cem")

    with wedged(colony.machines["c3"], "/usr/sbin/useradd", meanwhile):
        done = colony.change(SHARED, FRESH)
    assert told["shut out"] and told["suspended"] == 1, told
    assert "[revocation_under_way]" in str(told["said"]), told
    assert "vision/desk" in str(told["said"]), told
    assert done.code == 1 and done.problems == ["host_timeout"], done.document["problems"]
    assert not opens(colony, "vision/desk", "cem"), "by the apply, once its time there was up"
    again = colony.apply()
    assert (again.code, again.problems) == (0, []), again.document["problems"]
    assert opens(colony, "vision/fresh", "ana")
