"""Hosts that are cut off, lose their power, hang, or are others: nothing of them is ever guessed.

In every apply there is work on a sound host as well, which is done; and whatever happened, one
more plain apply puts everything right.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import cycle
from typing import Any

import pytest

from reconciler.hosts import evidence
from reconciler.hosts.ssh import ssh
from reconciler.operations.apply.wave import work
from tests.harness.yard import Said
from tests.lab.breaking import another_key, another_machine, deaf, login_takes, shell_hangs, wedged
from tests.lab.colony import ALLOCATIONS, Colony, allocation, beside
from tests.lab.console import console
from tests.lab.host import Host
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

ENDS = {name: paper.allocation(name, node="c2") for name in ("end1", "end2", "end3", "end4")}
"""Given up one after the other, each while its host is out of order."""

BEGINS = {name: paper.allocation(name, node="c3") for name in ("new1", "new2", "new3", "new4")}
SOUND = "allocation/nlp/bert"
"""On c1, to which nothing happens: somebody else is let in by every apply."""

PEOPLE = cycle((["bo"], ["bo", "dana"]))
CUT = ("c2", "c3")


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Iterator[None]:
    """What is waited for in seconds is as long as it need be in a lab."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssh, "ALIVE_SECONDS", 1)
        patch.setattr(ssh, "CONNECT_SECONDS", 2)
        patch.setattr(evidence, "LOGIN_SECONDS", 6)
        yield


@pytest.fixture(scope="module", autouse=True)
def allocations(colony: Colony, impatient: None) -> Iterator[None]:
    given = colony.change(*ENDS.values())
    assert given.code == 0, given.document["problems"]
    yield
    more = [one for one in (*ENDS.values(), *BEGINS.values()) if colony.file(one).exists()]
    back = colony.change(*map(allocation, ALLOCATIONS), but=more)
    assert back.code == 0, back.document["problems"]
    assert set(colony.refs) == set(ALLOCATIONS)
    colony.rests()


@pytest.fixture(autouse=True)
def let_go(colony: Colony) -> None:
    """Kept connections have the patience that they were made with."""
    for node in CUT:
        colony.let_go(node)


def hit(colony: Colony, *documents: Mapping[str, Any], but: str = "") -> Said:
    """An apply of this, and of somebody who is let in on the sound host, whatever happens."""
    sound = allocation(SOUND.removeprefix("allocation/"), access=next(PEOPLE))
    done = colony.change(sound, *documents, but=[ENDS[but]] if but else [])
    assert SOUND in done.document["result"]["done"]
    assert done.code == 1
    return done


def told(done: Said) -> dict[str, list[str]]:
    """Node → the codes that are told of it, each with something to do about it."""
    found: dict[str, list[str]] = {}
    for problem in done.document["problems"]:
        if problem["ref"].startswith("node/"):
            assert problem["hint"], problem
            found.setdefault(problem["ref"].removeprefix("node/"), []).append(problem["code"])
    return found


def both(code: str) -> dict[str, list[str]]:
    """Once for each of the hosts that are out of order, however much they were to do."""
    return {node: [code] for node in CUT}


def nothing_is_guessed(colony: Colony, end: str, begin: str, *, begun: bool = True) -> None:
    """Neither released nor healthy, wherever somebody may look; and nobody has a place on a host
    that was found to be silent before it was asked for anything.
    """
    assert colony.claims[f"allocation/vision/{end}@c2/{slot(colony, end)}"] == "cleanup_blocked"
    held = [state for claim, state in colony.claims.items() if f"/{begin}@c3/" in claim]
    assert held == (["held"] if begun else [])
    slots = colony.gpuaas("slot", "list").document["result"]
    states = {one["state"] for one in slots if one["node"] in CUT and not one["allocation"]}
    assert states == {"unknown"}
    nodes = {one["name"]: one["problem"] for one in colony.gpuaas("nodes").document["result"]}
    assert nodes["c1"] == "" and nodes["c2"] and nodes["c3"]
    rows = colony.gpuaas("status").document["result"]["allocations"]
    health = {row["ref"]: row["health"] for row in rows if row["node"] in CUT}
    assert set(health.values()) == {"unknown"}
    assert f"allocation/vision/{begin}" not in colony.world.recorded or begin not in colony.refs


def slot(colony: Colony, name: str) -> str:
    (found,) = [claim.slot for claim in colony.world.claims if claim.ref.name == name]
    return str(found)


def put_right(colony: Colony, end: str, begin: str) -> None:
    """One plain apply, and who was given up is gone while who is new gets in."""
    done = colony.apply()
    assert done.code == 0, done.document["problems"]
    assert f"vision/{end}" not in colony.refs
    assert not [claim for claim in colony.claims if f"/{end}@" in claim]
    entered = colony.enter(f"vision/{begin}", "ana", "id -un")
    assert entered.stdout.strip() == colony.recorded(f"allocation/vision/{begin}").login


def processes_for(*hosts: Host) -> list[str]:
    """What works for one of these, or for a play, on this machine; masters of others may stay."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    ours = f"/tmp/gpuaas-{os.getuid()}/"
    return [
        line
        for line in listed.stdout.splitlines()
        if any(line.endswith(host.address) or f"{host.address} " in line for host in hosts)
        and ours in line
    ]


def cut(*hosts: Host) -> Callable[[], None]:
    return lambda: [host.cut() for host in hosts] and None


def test_cut_off_before_the_work(colony: Colony) -> None:
    """F-ANS-02, F-REC-03, F-PLC-04: not seen is not gone; the second apply does not wait again."""
    hosts = [colony.machines[node] for node in CUT]
    cut(*hosts)()
    try:
        done = hit(colony, BEGINS["new1"], but="end1")
        assert told(done) == {"c2": ["host_unreachable"]}
        assert set(done.blocked) == {"allocation/vision/new1"}
        nothing_is_guessed(colony, "end1", "new1", begun=False)
        assert "c2/" in done.messages and "stays blocked: host c2 unknown" in done.messages
        again, before = hit(colony), colony.runs
        assert told(again) == {"c2": ["host_unreachable"]}
        nothing_is_guessed(colony, "end1", "new1", begun=False)
        assert before == colony.runs
    finally:
        beside(Host.heal, hosts)
    put_right(colony, "end1", "new1")


def test_cut_off_in_the_middle_of_the_work(colony: Colony) -> None:
    """F-ANS-02, F-STA-01, F-ANS-06: what it went on to do is unknown until it is looked at."""
    c2, c3 = (colony.machines[node] for node in CUT)
    with (
        wedged(c2, "/usr/sbin/userdel", cut(c2)),
        wedged(c3, "/usr/sbin/useradd", cut(c3)),
    ):
        done = hit(colony, BEGINS["new2"], but="end2")
        assert told(done) == both("host_unreachable")
        assert "is unknown" in done.messages
        nothing_is_guessed(colony, "end2", "new2")
        assert processes_for(c2, c3) == []
        beside(Host.heal, (c2, c3))
    put_right(colony, "end2", "new2")


def test_cut_off_after_the_work(colony: Colony, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-STA-01, F-PLC-04: all was done and told, and nothing of it was seen."""
    hosts, run_wave = [colony.machines[node] for node in CUT], work.run_wave

    def then_cut(*arguments: Any) -> Any:
        receipts = run_wave(*arguments[:-1])
        assert all(receipt.ok for receipt in receipts)
        cut(*hosts)()
        return receipts

    monkeypatch.setattr(work, "run_wave", then_cut)
    try:
        done = hit(colony, BEGINS["new3"], but="end3")
        assert told(done) == both("host_unreachable")
        nothing_is_guessed(colony, "end3", "new3")
    finally:
        beside(Host.heal, hosts)
    monkeypatch.undo()
    put_right(colony, "end3", "new3")


def test_power_cut_in_the_middle_of_the_work(colony: Colony) -> None:
    """F-STA-01, F-PLC-06: both come back with half of it on their disks."""
    c2, c3 = (colony.machines[node] for node in CUT)
    with (
        wedged(c2, "/usr/sbin/userdel", c2.kill),
        wedged(c3, "/usr/sbin/useradd", c3.kill),
    ):
        done = hit(colony, BEGINS["new4"], but="end4")
        assert told(done) == both("host_unreachable")
        nothing_is_guessed(colony, "end4", "new4")
        for host in (c2, c3):
            host.up(owner=os.getpid())
        beside(Host.wait, (c2, c3))
    put_right(colony, "end4", "new4")


def test_power_cut_while_a_host_is_made_ready(colony: Colony) -> None:
    """F-ANS-05, rule 6: it starts as it was before, and is made ready by the next apply."""
    c3 = colony.machines["c3"]
    console(c3, "echo '# by hand' >> /etc/sysctl.d/60-gpuaas.conf")
    assert "node/c3" in colony.plan("--refresh").actions
    with wedged(c3, "/usr/bin/systemd-analyze", c3.kill):
        done = hit(colony)
        assert "host_unreachable" in told(done)["c3"]
        c3.up(owner=os.getpid())
        c3.wait()
        assert "by hand" in console(c3, "cat /etc/sysctl.d/60-gpuaas.conf"), "put back at boot"
    assert colony.apply().code == 0
    assert "by hand" not in console(c3, "cat /etc/sysctl.d/60-gpuaas.conf")
    colony.rests()


def test_hosts_that_answer_the_door_and_say_nothing(colony: Colony) -> None:
    """F-ANS-02, F-ANS-06: silence, a banner, a login and a shell that hang; each in its time."""
    c2, c3 = (colony.machines[node] for node in CUT)
    more = (
        allocation("vision/sweep", access=["ana", "cem"]),
        allocation("nlp/tok", access=["dana", "bo"]),
    )
    hanging: tuple[tuple[Any, Any], ...] = (
        (deaf(c2), deaf(c3, "SSH-2.0-OpenSSH_10.0\r\n")),
        (login_takes(c2, 600), shell_hangs(c3)),
    )
    for faults in hanging:
        with ExitStack() as stack:
            for fault in faults:
                stack.enter_context(fault)
            done = hit(colony, *more)
            assert told(done) == both("host_unreachable")
            assert processes_for(c2, c3) == []
    assert colony.apply().code == 0
    assert colony.opened("bo") >= {("nlp/tok", "bo")}


def test_another_machine_or_another_key_at_a_known_address(colony: Colony) -> None:
    """F-ANS-10, F-GRT-02: nothing is asked of it, and what stands there stays as it is."""
    c2, c3 = (colony.machines[node] for node in CUT)
    more = allocation("vision/sweep"), allocation("nlp/tok")
    before = [console(host, "cat /etc/gpuaas/ssh/*") for host in (c2, c3)]
    with another_machine(c2), another_key(c3):
        done = hit(colony, *more)
        assert told(done) == both("host_identity_changed")
        assert [console(host, "cat /etc/gpuaas/ssh/*") for host in (c2, c3)] == before
        nodes = {one["name"]: one["problem"] for one in colony.gpuaas("nodes").document["result"]}
        assert all("host_identity_changed" in nodes[node] for node in CUT)
    assert colony.apply().code == 0
    assert ("nlp/tok", "bo") not in colony.opened("bo")
