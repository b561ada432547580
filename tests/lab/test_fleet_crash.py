"""Killed again and again while it works on real hosts: the next plain apply finishes, once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.crash import APPLY, GUARD_SECONDS, files_of, kill, workers
from tests.lab.colony import Colony, wait_until
from tests.lab.console import console
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

FRESH = paper.allocation("fresh", node="c2")
REF = "allocation/vision/fresh"
STOPS = ("begin_wave.after", "play.during", "play.after", "finish_wave.before")
OPEN = "pgrep -u {login} -f 'sleep 600'"
TUNED = "/etc/sysctl.d/60-gpuaas.conf"

AT_WORK = "pgrep -fx '/usr/bin/python3 -I?S? ?-.*' || true"
"""Whoever still works there on what a run has sent over."""


def killed_at(colony: Colony, stop: str, node: str) -> int:
    """One more apply dies there; soon nobody works for it, here or on the host. Its pid."""
    pid = kill(colony, APPLY, stop)
    wait_until(lambda: at_work(pid, colony) == [], GUARD_SECONDS)
    wait_until(lambda: console(colony.machines[node], AT_WORK) == "", 15)
    return pid


def at_work(pid: int, colony: Colony) -> list[str]:
    """All but ssh: connections are kept, and people are logged in."""
    return [one for one in workers(pid, colony.folder) if not one.split()[1].startswith("ssh")]


@pytest.fixture
def neighbour(colony: Colony) -> Iterator[None]:
    """Somebody is at work beside all of this, and still is in the end."""
    train = colony.recorded("allocation/vision/train")
    host = colony.host_of("vision/train")
    with colony.session("vision/train", "ana"):
        pid = host.run(OPEN.format(login=train.login)).stdout
        yield
        assert host.run(OPEN.format(login=train.login)).stdout == pid != ""


def test_a_create_and_a_release_are_killed_at_each_stop_in_turn(
    colony: Colony, neighbour: None
) -> None:
    """F-STA-01, F-ANS-06, LCH-05, F-PLC-06: one account, one claim, and then none."""
    colony.write(FRESH)
    colony.commit()
    for stop in STOPS:
        killed_at(colony, stop, "c2")
        assert len([claim for claim in colony.claims if claim.startswith(REF)]) == 1
    assert colony.apply().code == 0
    made = colony.recorded(REF)
    host = colony.machines["c2"]
    assert console(host, "ls /home").split().count(made.login) == 1
    assert len(console(host, "getent passwd | grep ^fresh-").splitlines()) == 1
    assert colony.enter("vision/fresh", "ana", "id -un").stdout.strip() == made.login

    colony.remove(FRESH)
    colony.commit()
    for stop in STOPS:
        killed_at(colony, stop, "c2")
        assert set(colony.claims.values()) <= {"held", "releasing", "cleanup_blocked"}
    assert colony.apply().code == 0
    assert not [claim for claim in colony.claims if claim.startswith(REF)]
    assert made.login not in console(host, "ls /home; getent passwd")
    passed = "SELECT count(*) FROM proof WHERE allocation_id = ? AND passed = 1"
    assert colony.rows(passed, made.id) == [(1,)]
    colony.rests()
    assert colony.gpuaas("state", "check").code == 0


@pytest.mark.parametrize("stop", ["play.during", "settle.before", "settle.after"])
def test_a_host_that_is_made_ready_is_left_alone(
    colony: Colony, neighbour: None, stop: str
) -> None:
    """F-ANS-05, F-ANS-06, rule 6: it is as it was, or as it should be, and lets people in."""
    host = colony.machines["c3"]
    console(host, f"echo '# by hand' >> {TUNED}")
    assert "node/c3" in colony.plan("--refresh").actions
    pid = killed_at(colony, stop, "c3")
    assert colony.opened("bo")
    assert colony.apply().code == 0
    assert files_of(pid, colony.folder) == []
    assert "by hand" not in console(host, f"cat {TUNED}")
    colony.rests()
