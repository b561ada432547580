"""Soak: the loop on its own, while people commit and the world breaks; `make soak`.

`GPUAAS_SOAK_SECONDS` says for how long (15 minutes), `GPUAAS_SOAK_SEED` with which seed; both are
printed, with what was done. At every look: one holder a slot, a proof before each reuse, a sound
chain of events. At the end the fleet is what the last good commit says, and nothing is left over.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import place
from tests.lab.colony import Colony, founded, wait_until
from tests.lab.conftest import Fresh
from tests.lab.soak import Author, Loop, World, git
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.alone]

SECONDS = float(os.environ.get("GPUAAS_SOAK_SECONDS", "900"))
SEED = int(os.environ.get("GPUAAS_SOAK_SEED", "0") or 0) or time.time_ns() % 1_000_000
SETTLES = 900.0
"""So many seconds after everything was mended the fleet is what git says."""

AUTOMATION = {
    "guard": {"maxRemovals": 1000, "maxRemovalPercent": 100},
    "grant": {"mayBeOpenEnded": True},
    "approval": {"secondPersonFor": []},
    "automation": {"allow": "destroys"},
}

TWO_HOLDERS = (
    "SELECT node, slot, count(*) FROM claim WHERE state <> 'freed' GROUP BY node, slot"
    " HAVING count(*) > 1"
)
NO_PROOF = (
    "SELECT c.id FROM claim c LEFT JOIN proof p ON p.id = c.proof"
    " WHERE c.state = 'freed' AND c.override IS NULL AND coalesce(p.passed, 0) = 0"
    " AND EXISTS (SELECT 1 FROM step s WHERE s.ref = c.ref AND s.node = c.node"
    " AND s.verb = 'allocation.provide' AND s.state = 'done')"
)


@pytest.fixture
def colony(fresh_hosts: Fresh, tmp_path: Path) -> Iterator[Colony]:
    with fresh_hosts(3) as hosts:
        machines = dict(zip(("c1", "c2", "c3"), hosts, strict=True))
        colony = founded(tmp_path, machines, paper.policy(**AUTOMATION))
        colony.enrol()
        place.order("git", "init", "-q", "--bare", "-b", "main", tmp_path / "fleet.git")
        settings = tmp_path / "gpuaas.yaml"
        source = f"{{url: {tmp_path}/fleet.git, branch: main}}"
        text = f"loop: {{observeSeconds: 30, source: {source}}}\n"
        settings.write_text(settings.read_text() + text)
        colony.commit()
        git(tmp_path, "push", "-q", str(tmp_path / "fleet.git"), "HEAD:main")
        yield colony


def test_the_loop_keeps_a_fleet_whatever_happens(
    colony: Colony, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    chance = random.Random(SEED)
    author = Author(colony, chance, counts)
    loop = Loop(colony, tmp_path / "loop.log")
    world = World(colony, loop, author, chance, counts)
    with capsys.disabled():
        print(f"\nsoak of {SECONDS:.0f} s, GPUAAS_SOAK_SEED={SEED}", flush=True)
    loop.begin()
    began = time.monotonic()
    next_commit, next_blow, next_look = began + 20.0, began + 60.0, began
    try:
        while time.monotonic() - began < SECONDS:
            now = time.monotonic()
            world.heal()
            if now >= next_commit:
                author.act()
                next_commit = now + chance.uniform(2, 20)
            if now >= next_blow:
                world.act()
                next_blow = now + chance.uniform(15, 60)
            if now >= next_look:
                look(colony, counts)
                next_look = now + 5
            time.sleep(0.2)
        world.heal(all_of_it=True)
        author.settle()
        assert loop.process is not None
        if loop.process.poll() is not None:
            loop.begin()
        settled = time.monotonic()
        wait_until(lambda: is_as_wanted(colony, author), SETTLES)
        took = time.monotonic() - settled
        assert loop.end() == 0
        look(colony, counts)
        at_the_end(colony, author)
    finally:
        if loop.process is not None and loop.process.poll() is None:
            loop.kill()
        with capsys.disabled():
            told = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
            events = colony.rows("SELECT type, count(*) FROM event GROUP BY type ORDER BY type")
            said = ", ".join(f"{number} {what}" for what, number in events)
            print(f"seed {SEED}: {told}\nevents: {said}", flush=True)
    with capsys.disabled():
        print(f"as git says {took:.0f} s after the last blow", flush=True)


def look(colony: Colony, counts: Counter[str]) -> None:
    counts["looks"] += 1
    assert colony.rows(TWO_HOLDERS) == []
    assert colony.rows(NO_PROOF) == []
    if counts["looks"] % 12 == 0:
        said = colony.gpuaas("state", "check")
        assert said.code == 0, said.document["problems"]


def is_as_wanted(colony: Colony, author: Author) -> bool:
    """Whether everything that fits is there, and nothing else."""
    waiting = {ref.removeprefix("allocation/") for (ref,) in colony.rows("SELECT ref FROM waiting")}
    have = set(colony.refs)
    live = colony.rows("SELECT DISTINCT ref FROM claim WHERE state <> 'freed'")
    held = {ref.removeprefix("allocation/") for (ref,) in live}
    return have == held == author.wanted.keys() - waiting


def at_the_end(colony: Colony, author: Author) -> None:
    """Hosts have the accounts of those who are there, each opens for its owner, and no others."""
    logins: dict[str, set[str]] = {name: set() for name in colony.machines}
    for ref in colony.refs:
        one = colony.recorded(f"allocation/{ref}")
        logins[one.node].add(one.login)
        owner = author.wanted[ref]["spec"]["owner"]
        done = colony.enter(ref, owner, "true")
        assert done.returncode == 0, (ref, done.stderr)
    for name, host in colony.machines.items():
        told = host.run("getent passwd | grep 'gpuaas [a-z2-7]*:' | cut -d: -f1 || true").stdout
        tenants = {login for login in told.split() if not login.startswith("gpuaas-")}
        assert tenants == logins[name], name
    git(colony.folder, "status")
    colony.rests()
