"""Chaos: a full host of tenants who do all they can, while others come, go and are shut out.

`GPUAAS_CHAOS_SECONDS` says for how long; ten minutes where nothing does.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lab.colony import Colony, as_person, founded
from tests.lab.conftest import Fresh
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.alone]

NOISE = Path(__file__).with_name("noise.py").read_text(encoding="utf-8")
SECONDS = float(os.environ.get("GPUAAS_CHAOS_SECONDS", "600"))
PEOPLE = {"vision": "ana", "nlp": "bo"}
LANDS = 30.0
"""So many seconds after a host was asked nobody gets in any more."""

TENANTS = tuple((f"{'vision' if number % 2 else 'nlp'}/noise-{number}") for number in range(8))


def wanted(ref: str) -> dict[str, Any]:
    """On the one host, each of somebody who may be shut out beside its owner."""
    project, _, name = ref.partition("/")
    owner, guest = PEOPLE[project], {"vision": "cem", "nlp": "dana"}[project]
    return paper.allocation(name, "slice-1", project, owner=owner, access=[owner, guest], node="c1")


@pytest.fixture
def full(fresh_hosts: Fresh, tmp_path: Path) -> Iterator[Colony]:
    """A host whose every slot is somebody's."""
    with fresh_hosts(1) as hosts:
        colony = founded(tmp_path, {"c1": hosts[0]}, *map(wanted, TENANTS))
        colony.enrol()
        first = colony.shell("apply", "--auto-approve")
        assert first.returncode == 0, first.stdout + first.stderr
        yield colony


class Crowd:
    """Each tenant's noise, begun again whenever it was ended."""

    def __init__(self, colony: Colony, until: float) -> None:
        self.colony, self.until = colony, until
        self.running: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Crowd:
        self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        for one in self.running.values():
            one.kill()
            one.communicate()

    def begin(self) -> int:
        """How many are at it."""
        others = [f"127.77.{number}.{number}" for number in range(1, 5)]
        left = max(1.0, self.until - time.monotonic())
        for ref in self.colony.refs:
            one = self.running.get(ref)
            if one is None or one.poll() is not None:
                words = ["python3", "-I", "-", f"{left:.0f}", *others]
                line = as_person(self.colony.line(ref), PEOPLE[ref.partition("/")[0]])
                started = subprocess.Popen(
                    [*line, " ".join(words)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                assert started.stdin is not None
                started.stdin.write(NOISE)
                started.stdin.close()
                self.running[ref] = started
        return sum(one.poll() is None for one in self.running.values())


def shut_out(colony: Colony, ref: str, guest: str) -> float:
    """Seconds from the word until nobody gets in, and the session that was open has ended."""
    with colony.session(ref, guest) as session:
        began = time.monotonic()
        said = colony.shell("suspend", f"user/{guest}", "--reason", "chaos")
        assert said.returncode == 0, said.stdout + said.stderr
        session.wait(timeout=max(1.0, LANDS - (time.monotonic() - began)))
        assert colony.enter(ref, guest, "true").returncode != 0
        took = time.monotonic() - began
    back = colony.shell("resume", f"user/{guest}", "--reason", "chaos")
    assert back.returncode == 0, back.stdout + back.stderr
    return took


def released(colony: Colony, ref: str) -> tuple[str, Mapping[str, str]]:
    """Whether a release was proved, or held back by name; and what was said of others beside.

    Named is a process of a tenant, by its number, with the login of whoever has it.
    """
    logins = [colony.recorded(f"allocation/{one}").login for one in colony.refs]
    done = colony.change(but=[wanted(ref)])
    problems = {p["ref"]: p["message"] for p in done.document["problems"] if p.get("ref")}
    own = problems.pop(f"allocation/{ref}", "")
    if done.code == 0:
        return "proved", problems
    named = [login for login in logins if re.search(rf"process \d+ \S+ of {login}\b", own)]
    assert named, (done.document["problems"], "it names nobody")
    return "named", problems


def test_ten_minutes_of_everything(full: Colony, capsys: pytest.CaptureFixture[str]) -> None:
    """Every revocation lands, every release proves or names, and no neighbour's is held up."""
    counts: Counter[str] = Counter()
    longest, until = 0.0, time.monotonic() + SECONDS
    random.seed(7)
    with Crowd(full, until) as crowd:
        time.sleep(5)
        while time.monotonic() < until:
            assert crowd.begin() >= len(full.refs) - 1
            ref = random.choice(full.refs)
            guest = "cem" if ref.startswith("vision") else "dana"
            took = shut_out(full, ref, guest)
            assert took <= LANDS, (ref, took)
            longest = max(longest, took)
            counts["revocations"] += 1
            leaving = random.choice(full.refs)
            outcome, beside = released(full, leaving)
            assert not beside, beside
            counts[outcome] += 1
            crowd.running.pop(leaving).kill()
            made = full.change(wanted(leaving))
            counts["given out" if made.code == 0 else "not given out"] += 1
            assert full.machines["c1"].run("true").returncode == 0
            counts["looks"] += full.plan("--refresh").code == 0
    with capsys.disabled():
        told = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        print(f"\nchaos for {SECONDS:.0f} s: {told}; the longest revocation took {longest:.1f} s")
    assert counts["revocations"] and counts["proved"], counts
    last = full.apply()
    assert last.code == 0, last.document["problems"]
    full.rests()
