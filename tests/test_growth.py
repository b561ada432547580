"""What a command does grows as the fleet does, and no faster: counted, since time tells nothing.

Two fleets of everything, one four times the other. What sorts may take a little more than four
times; anything that looks through all of the fleet once for each of its parts takes sixteen.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli import status_page
from reconciler.cli.main import run
from reconciler.model.moment import format_moment
from reconciler.model.state.world import Suspension
from reconciler.operations.journal import writing
from reconciler.operations.open import open_fleet
from reconciler.operations.specs import read_desired
from reconciler.operations.status.status import Glance
from reconciler.specs.read import library
from reconciler.store.tables import suspensions
from tests import call_counts, full_fleet
from tests.simulated_hosts import FaultlessHosts, in_place_of_real_hosts, look

SMALL, TIMES = 4, 4
TOTAL, ONE, RARE = 4.4, 4.8, 12
"""How much more may be done in all, and by one function; what is rarer in the larger fleet is no

measure.
"""
AUTHOR = ("-c", "user.name=olga", "-c", "user.email=olga@corp.example")

Count = Callable[[Callable[[], object]], Mapping[str, int]]
Counts = Mapping[str, Mapping[str, int]]

READS = (
    "plan",
    "approvals",
    "validate",
    "status",
    "status --all",
    "drift",
    "grant list",
    "node list",
    "slot list",
    "capacity",
    "doctor",
    "events",
    "activity",
    "storage list",
    "bundle list",
    "explain team-0/run-4",
    "why team-0/run-0",
)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a file just written is kept; else all counts were a matter of the clock.

    Of either fleet a page is shown: else what chooses its rows would begin with the larger.
    """
    monkeypatch.setattr(library, "UNSETTLED_NS", 0)

    def for_ever(status_page: Glance) -> Callable[[Sequence[Any]], None]:
        return lambda shown: (status_page[1](shown), None)[1]

    monkeypatch.setattr(Glance, "lasts_until", property(for_ever))
    monkeypatch.setattr(status_page, "MOST", 2)


def command(*words: str) -> int:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run(words)


def git(*words: str) -> None:
    subprocess.run(["git", *AUTHOR, *words], check=True, capture_output=True)


def life(
    folder: Path, teams: int, count: Count, reads: Sequence[str] = READS
) -> Iterator[tuple[str, Mapping[str, int]]]:
    """A fleet of everything from its first plan to the rebuild of its lost state."""
    full_fleet.write(folder, teams)
    (folder / ".gitignore").write_text("/state/\n/.gpuaas/\n", encoding="utf-8")
    os.chdir(folder)
    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message=specs")
    assert command("init", ".") == 0
    fleet = open_fleet(folder)
    hosts = FaultlessHosts(read_desired(fleet))
    with in_place_of_real_hosts(hosts):
        look(fleet)
        yield "first plan", count(lambda: command("plan"))
        yield "first apply", count(lambda: command("apply", "--auto-approve=destroys"))
        yield "unchanged plan", count(lambda: command("plan"))
        for number in range(0, teams, 4):
            full_fleet.change(folder, f"team-{number}")
        yield "plan of some changes", count(lambda: command("plan"))
        with writing(fleet, "suspend") as journal:
            for number in range(0, teams, 4):
                journal.enter(
                    "suspend",
                    suspensions.begin,
                    shut_out(f"user/team-{number}-1", format_moment(fleet.now())),
                )
        yield "apply of suspensions", count(lambda: command("apply", "--auto-approve"))
        hosts.spoil("/etc/gpuaas/ssh/", "file 0644 sha256:0")
        yield "plan of drift", count(lambda: command("plan", "--refresh"))
        for words in reads:
            yield words, count(lambda words=words: command(*words.split()))  # type: ignore[misc]
        for file in (folder / "state").glob("gpuaas.db*"):
            file.unlink()
        yield "rebuild", count(lambda: command("state", "rebuild", "--yes"))
        yield "plan of a rebuilt state", count(lambda: command("plan"))


def shut_out(scope: str, since: str) -> Suspension:
    return Suspension(scope=scope, reason="lost laptop", actor="olga", since=since, until="")


@pytest.mark.walk
def test_calls_grow_as_the_fleet_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-27: of every function, in every command that looks at the whole fleet."""
    monkeypatch.chdir(tmp_path)
    assert "\n".join(measured(tmp_path, call_counts.calls, READS)) == ""


@pytest.mark.walk
def test_loops_grow_as_the_fleet_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-27: a loop that calls nothing is seen by its lines."""
    monkeypatch.chdir(tmp_path)
    assert (
        "\n".join(measured(tmp_path, call_counts.lines, ("status", "status --all", "storage list")))
        == ""
    )


def measured(folder: Path, count: Count, reads: Sequence[str]) -> Iterator[str]:
    # What is loaded or remembered once for all is no part of any fleet.
    dict(life(folder / "warm", 1, count, reads))
    small = dict(life(folder / "small", SMALL, count, reads))
    return grown(small, dict(life(folder / "large", SMALL * TIMES, count, reads)))


def grown(small: Counts, large: Counts) -> Iterator[str]:
    for what, counted in large.items():
        before, after = small[what], counted
        total = sum(after.values()) / sum(before.values())
        if total > TOTAL:
            yield f"{what}: {total:.2f} times as much in all"
        for name, number in after.items():
            if number > ONE * (before.get(name, 0) + RARE):
                yield f"{what}: {name}: {before.get(name, 0)} -> {number}"


def test_a_scan_for_each_is_found() -> None:
    """The measure itself: it tells what is done once for all from what is done for each."""

    def each(size: int) -> Mapping[str, int]:
        return call_counts.calls(lambda: [shut_out(a, b) for a in "x" * size for b in "y" * size])

    small, large = {"scan": each(20)}, {"scan": each(80)}
    assert [*grown(small, large)]
