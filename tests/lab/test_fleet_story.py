"""The life of allocations on two real hosts, from a bare machine to the next tenant of a slot.

One story, told in order: each test begins where the one before it ended.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import yaml

from reconciler.specs.edit.edit import set_values
from tests.lab.colony import Colony, founded
from tests.lab.host import Host
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("story")]

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]
TRAIN, NOTES, BOX, NEXT = "vision/train", "nlp/notes", "vision/box", "nlp/next"
FIRST = paper.allocation("train", node="h2", owner="ana")
OTHERS = (
    paper.allocation("box", "whole", owner="ana"),
    paper.allocation("notes", project="nlp", owner="bo", node="h2"),
)
HEIR = paper.allocation("next", project="nlp", owner="bo", node="h2")

WORK = """
set -u
LISTEN='import socket, time; s = socket.create_server(("127.0.0.1", 0)); time.sleep(3600)'
echo secret > ~/secret; echo secret > /tmp/secret; echo secret > /dev/shm/secret
setsid sleep 3600 > /dev/null 2>&1 < /dev/null &
setsid python3 -c "$LISTEN" > /dev/null 2>&1 < /dev/null &
echo '* * * * * touch /tmp/cron' | crontab - 2> /dev/null && echo cron
echo 'touch /tmp/at' | at now 2> /dev/null && echo at
loginctl enable-linger 2> /dev/null && echo linger
true
"""
BACK = """
[Unit]
StartLimitIntervalSec=0
[Service]
User={login}
ExecStart=/bin/sleep 3600
Restart=always
RestartSec=10ms
"""


@pytest.fixture(scope="module")
def story(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    """Two bare hosts, discovered, approved and prepared; one is sold whole, the other in parts."""
    with fresh_hosts(2) as hosts:
        skus = ["slice-1", "whole"]
        fleet = (
            paper.sku("whole", 0, isolation=["account"]),
            *(
                paper.project(name, *people, entitlements={"skus": skus})
                for name, people in {"vision": ("ana", "cem"), "nlp": ("bo", "dana")}.items()
            ),
        )
        machines = dict(zip(("h1", "h2"), hosts, strict=True))
        colony = founded(tmp_path_factory.mktemp("story"), machines, *fleet)
        for name in machines:
            assert colony.discover(name).returncode == 0
        shapes = {"shapes": ["baremetal"]}
        set_values(colony.fleet().settings, "specs/node/h1.yaml", 0, ("spec",), shapes)
        colony.commit()
        unapproved = colony.plan("--refresh")
        assert unapproved.actions["node/h1"] == "create" and not colony.claims
        for name in machines:
            assert colony.gpuaas("node", "approve", name, "--commit").code == 0
        yield colony


def login(colony: Colony, ref: str) -> str:
    name: str = colony.recorded(f"allocation/{ref}").login
    return name


def running(colony: Colony, ref: str) -> list[str]:
    """Pids of what somebody has left running on the host."""
    found = colony.host_of(ref).run("pgrep", "-u", login(colony, ref), "-x", "sleep", check=False)
    return found.stdout.split()


def slot(colony: Colony, name: str) -> Any:
    rows = colony.gpuaas("slot", "list").document["result"]
    return next(row for row in rows if f"{row['node']}/{row['slot']}" == name)


def place_of(colony: Colony, ref: str) -> str:
    one = colony.recorded(f"allocation/{ref}")
    return f"{one.node}/{one.slots[0]}"


def test_work_begins(story: Colony) -> None:
    """INV-08, ALC-02: a whole host and two parts of one; cron, at and linger are refused."""
    story.applied(FIRST, *OTHERS)
    assert story.recorded(f"allocation/{BOX}").node == "h1"
    worked = story.enter(TRAIN, "ana", "bash -s", WORK)
    assert (worked.returncode, worked.stdout) == (0, ""), worked.stderr
    left = "echo kept > ~/kept; echo gone > /tmp/gone; setsid sleep 3600 > /dev/null 2>&1 <&- &"
    for ref, person in ((NOTES, "bo"), (BOX, "ana")):
        assert story.enter(ref, person, left).returncode == 0
    assert len(running(story, TRAIN)) == len(running(story, NOTES)) == 1


def test_restarts_reach_whom_they_are_meant_for(story: Colony) -> None:
    """RST-01 … RST-08, ALC-06: a reboot proved by its boot, and a neighbour who notices nothing."""
    neighbour, boots = running(story, NOTES), {n: h.boot_id() for n, h in story.machines.items()}
    before = {ref: story.recorded(f"allocation/{ref}") for ref in (TRAIN, BOX)}
    for ref in (TRAIN, BOX):
        assert story.gpuaas("restart", ref, "--reason", "hung driver", "--commit").code == 0
    shown = story.plan("--refresh")
    for ref in (TRAIN, BOX):
        assert shown.change(f"allocation/{ref}")["risk"] == "interrupts"
    assert story.apply("--auto-approve").code == 5, "nobody has said yes to that"
    done = story.apply("--auto-approve=interrupts")
    assert done.code == 0, done.messages
    assert story.machines["h1"].boot_id() not in ("", boots["h1"])
    assert story.machines["h2"].boot_id() == boots["h2"]
    assert running(story, NOTES) == neighbour and not running(story, TRAIN)
    for ref, person, home in ((TRAIN, "ana", "secret"), (BOX, "ana", "kept")):
        found = story.enter(ref, person, f"cat ~/{home}; ls /tmp /dev/shm")
        assert found.stdout.split() == [home, "/dev/shm:", "/tmp:"], found.stderr
        for name in ("id", "login", "node", "slots"):
            after = story.recorded(f"allocation/{ref}")
            assert getattr(after, name) == getattr(before[ref], name)
    story.rests()


def test_a_drained_host_keeps_whom_it_has(story: Colony) -> None:
    """PLC-13, F-PLC-11."""
    assert story.gpuaas("node", "drain", "h2", "--reason", "driver", "--commit").code == 0
    said = story.change(HEIR)
    assert (said.code, said.blocked) == (3, {f"allocation/{NEXT}": "sku_unavailable"})
    posture = {row["name"]: row["posture"] for row in nodes(story)}
    assert posture == {"h1": "exclusive", "h2": "draining"}
    assert story.enter(TRAIN, "ana", "true").returncode == 0
    story.remove(HEIR)
    assert story.gpuaas("node", "undrain", "h2", "--commit").code == 0
    story.commit()
    assert story.apply().code == 0


def nodes(colony: Colony) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = colony.gpuaas("node", "list").document["result"]
    return rows


def test_a_release_can_be_taken_back(story: Colony) -> None:
    """Rule 12, REL-01: shut off, kept, and back by a git revert."""
    policy: dict[str, Any] = yaml.safe_load(story.file(paper.policy()).read_text())
    minutes = {**policy, "spec": {**policy["spec"], "release": {"undoMinutes": 60}}}
    story.applied(minutes)
    story.applied(but=(FIRST,))
    assert story.recorded(f"allocation/{TRAIN}").phase == "quarantined"
    assert story.enter(TRAIN, "ana", "true").returncode == 255
    subprocess.run(
        ["git", "-C", story.folder, "revert", "--no-edit", "HEAD"], check=True, capture_output=True
    )
    back = story.apply("--auto-approve")
    assert (back.code, back.actions[f"allocation/{TRAIN}"]) == (0, "restore"), back.messages
    assert story.enter(TRAIN, "ana", "cat ~/secret").stdout == "secret\n"
    story.applied(policy)


def test_a_slot_is_given_on_only_after_proof(story: Colony) -> None:
    """REL-02 … REL-05, F-PLC-04, F-PLC-05: what comes back is named, and nothing of it is left."""
    host, place = story.machines["h2"], place_of(story, TRAIN)
    held = story.recorded(f"allocation/{TRAIN}")
    uid = host.run("id", "-u", held.login).stdout.strip()
    unit = BACK.format(login=held.login)
    host.run("cat > /etc/systemd/system/back.service; systemctl daemon-reload", given=unit)
    host.run("systemctl start back")
    blocked = story.change(but=(FIRST,))
    assert blocked.code == 1 and "cleanup_blocked" in blocked.problems
    assert slot(story, place)["state"] == "cleanup_blocked"
    assert "back.service" in blocked.messages and "back.service" in story.shell("status").stdout
    story.write(HEIR)
    story.commit()
    elsewhere = story.plan().change(f"allocation/{NEXT}")
    assert elsewhere["placement"]["slots"] != list(held.slots), "nobody gets that slot"

    again = story.gpuaas("cleanup", "retry", place)
    assert again.code == 1 and "back.service" in str(again.document)
    host.run("systemctl stop back; rm /etc/systemd/system/back.service; systemctl daemon-reload")
    passed = story.gpuaas("cleanup", "retry", place)
    assert passed.code == 0, passed.messages
    assert slot(story, place)["state"] == "free"
    chain = story.shell("proof", "show", place).stdout
    assert TRAIN in chain and "processes" in chain and "deleted, not erased" in chain

    assert story.apply("--auto-approve").code == 0
    assert place_of(story, NEXT) == place, "the other project has it now"
    search = (
        f"find / -xdev \\( -uid {uid} -o -name '*{held.login}*' -o -name '*{held.id}*' \\)"
        " -not -path '/proc/*' 2> /dev/null; grep -rl secret /tmp /var/tmp /dev/shm /home ~;"
        f" ps -o pid= -u {uid}; getent passwd {uid}"
    )
    seen = story.enter(NEXT, "bo", search)
    assert seen.stdout == "", "nothing of the one before is to be read"
    assert story.host_of(NEXT).run(search, check=False).stdout == "", "not even by root"
    assert story.recorded(f"allocation/{NEXT}").login != held.login
    told = story.shell("timeline", f"allocation/{TRAIN}").stdout
    assert all(word in told for word in ("CREATE", "RESTART", "RELEASE", "RESTORE"))
