"""Restarts on real hosts: what ends, what stays, and what a host that comes back has to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from reconciler.specs.edit.edit import set_values
from tests.harness.crash import APPLY, kill
from tests.lab.colony import Colony, founded, wait_until
from tests.lab.host import Host
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]
LEAVE = "echo kept > ~/kept; for at in /tmp /var/tmp /dev/shm; do echo gone > $at/gone; done"
LOOK = "cat ~/kept; ls /tmp /var/tmp /dev/shm; id -un"
OPEN = "pgrep -u {login} -fx 'sleep 600'"


def asked(colony: Colony, ref: str, reason: str = "process cleanup") -> None:
    done = colony.gpuaas("restart", ref, "--reason", reason, "--commit")
    assert done.code == 0, done.document


def left(colony: Colony, ref: str, person: str) -> None:
    done = colony.enter(ref, person, LEAVE)
    assert done.returncode == 0, done.stderr


def found(colony: Colony, ref: str, person: str) -> list[str]:
    """The words that its folders hold, and who somebody is in there."""
    return colony.enter(ref, person, LOOK).stdout.split()


BOX, NODE = "vision/box", "specs/node/b1.yaml"
EMPTY = ["kept", "/dev/shm:", "/tmp:", "/var/tmp:"]


def test_a_part_of_a_host_is_started_anew_and_no_neighbour_notices(colony: Colony) -> None:
    """RST-02, RST-04, RST-08, ALC-06: its processes and temporary files alone are gone."""
    ref, beside = "vision/eval", "nlp/bert"
    before, host = colony.recorded(f"allocation/{ref}"), colony.host_of(ref)
    login = OPEN.format(login=before.login)
    other = OPEN.format(login=colony.recorded(f"allocation/{beside}").login)
    left(colony, ref, "cem")
    boot = host.boot_id()
    with colony.session(ref, "cem"), colony.session(beside, "bo"):
        neighbours = host.run(other).stdout
        asked(colony, ref)
        plan = colony.plan("--refresh").change(f"allocation/{ref}")
        assert "(cem)" in plan["facts"]["hits"] and " sleep" in plan["facts"]["hits"]
        assert plan["risk"] == "interrupts"
        done = colony.apply()
        assert done.code == 0, done.messages
        assert host.run(login, check=False).stdout == ""
        assert host.run(other).stdout == neighbours != ""
    ((said,),) = colony.rows("SELECT log FROM step WHERE verb = 'allocation.restart'")
    assert said.count(": not reset: nvidia-smi ended with") == 1, "a stand-in resets nothing"
    after = colony.recorded(f"allocation/{ref}")
    for name in ("id", "login", "node", "slots"):
        assert getattr(after, name) == getattr(before, name)
    assert sorted(found(colony, ref, "cem")) == sorted([*EMPTY, before.login])
    assert list(colony.look(ref, "cem")["devices"].values()).count("ENXIO") == 1
    assert host.boot_id() == boot
    # What has begun since is younger than the restart, and nothing else is looked for.
    with colony.session(ref, "cem"):
        assert colony.plan("--refresh", "--detailed-exitcode").actions == {}


@pytest.fixture(scope="module")
def alone(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    """One host, which somebody has whole."""
    with fresh_hosts(1) as (host,):
        skus = ["whole"]
        more = (
            paper.sku("whole", 0, isolation=["account"]),
            paper.project("vision", "ana", "cem", entitlements={"skus": skus}),
            paper.allocation("box", "whole", owner="ana"),
        )
        colony = founded(tmp_path_factory.mktemp("alone"), {"b1": host}, *more)
        assert colony.discover("b1").returncode == 0
        shapes = {"shapes": ["baremetal", "gpu_slice"]}
        set_values(colony.fleet().settings, NODE, 0, ("spec",), shapes)
        colony.commit()
        assert colony.gpuaas("node", "approve", "b1").code == 0
        colony.commit()
        done = colony.apply()
        assert done.code == 0, done.messages or done.blocked
        yield colony


def test_a_whole_host_is_rebooted_once_whoever_is_killed_meanwhile(alone: Colony) -> None:
    """RST-01, RST-02, RST-05: proved by another boot; what it has lost is put back after it."""
    before, host = alone.recorded(f"allocation/{BOX}"), alone.machines["b1"]
    left(alone, BOX, "ana")
    boot = host.boot_id()
    asked(alone, BOX, "reboot after handoff")
    kill(alone, APPLY, "reboot.after")
    second = host.boot_id()
    assert second not in ("", boot), "it was waited for until it was back"
    assert alone.recorded(f"allocation/{BOX}").basis == "", "nobody has written that it is through"
    for path in (f"/etc/gpuaas/ssh/{before.login}", f"/etc/gpuaas/allocations/{before.id}.json"):
        host.run("rm", path)
    done = alone.apply("--auto-approve=safe")
    assert done.code == 0, done.messages
    assert host.boot_id() == second, "it was not rebooted a second time"
    after = alone.recorded(f"allocation/{BOX}")
    for name in ("id", "login", "node", "slots"):
        assert getattr(after, name) == getattr(before, name)
    assert sorted(found(alone, BOX, "ana")) == sorted([*EMPTY, before.login])


def test_who_does_not_wait_finds_it_done_by_the_next_apply_under_a_key_that_somebody_accepts(
    alone: Colony,
) -> None:
    """RST-03, F-ANS-10: apply returns; another key is named at once and nobody's to believe but an
    operator's, who reads it at the console and gives their word for it.
    """
    host = alone.machines["b1"]
    boot = host.boot_id()
    asked(alone, BOX, "network recovery")
    # sshd has read the old ones; with the next boot it shows these.
    host.run("rm /etc/ssh/ssh_host_*; ssh-keygen -qA")
    done = alone.apply("--no-wait")
    assert (done.code, done.problems) == (0, ["restart_under_way"])
    wait_until(lambda: starts_anew(host), 60)
    host.wait()
    wait_until(lambda: host.boot_id() not in ("", boot), 60)
    second = host.boot_id()
    refused = alone.apply()
    assert (refused.code, refused.problems) == (1, ["host_identity_changed"])
    assert set(alone.claims.values()) == {"held"}

    file = alone.folder / NODE
    new = {key.split()[0]: key for key in host.host_keys()}
    for old in alone.recorded("node/b1").normal["spec"]["identity"]["hostKeys"]:
        file.write_text(file.read_text().replace(old, new[old.split()[0]]))
    alone.commit()
    assert alone.gpuaas("node", "approve", "b1", "--commit").code == 0
    finished = alone.apply("--auto-approve=safe")
    assert finished.code == 0, finished.messages
    assert host.boot_id() == second, "it was not rebooted for that"


def starts_anew(host: Host) -> bool:
    """It was told to: it does not answer, or only under the keys that nobody has seen yet."""
    return host.boot_id() == ""
