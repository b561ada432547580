"""The page of `status` that is kept: shown again only while it would be made the same."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from reconciler.cli.main import run
from reconciler.cli.text import render
from reconciler.cli.views import status as status_view
from reconciler.model.moment import format_age, format_moment, next_age
from reconciler.model.state.world import Suspension
from reconciler.operations.cache import pages
from reconciler.operations.fleet import Fleet, utc_now
from reconciler.operations.journal import writing
from reconciler.operations.open import open_fleet
from reconciler.operations.specs import read_desired
from reconciler.operations.status import status
from reconciler.specs.read import library
from reconciler.store.tables import suspensions
from tests import fleets, full_fleet, simulated_hosts
from tests.simulated_hosts import FaultlessHosts, in_place_of_real_hosts, look

AUTHOR = ("-c", "user.name=olga", "-c", "user.email=olga@corp.example")


def git(*words: str) -> None:
    subprocess.run(["git", *AUTHOR, *words], check=True, capture_output=True)


def shown(*words: str, code: int = 0) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as told:
        assert run(words) == code
    return told.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(library, "UNSETTLED_NS", 0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begun(folder: Path) -> Fleet:
    """What lies there, committed, with a state."""
    (folder / ".gitignore").write_text("/state/\n/.gpuaas/\n", encoding="utf-8")
    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message=specs")
    shown("init", ".")
    return open_fleet(folder)


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet in order, with more allocations than a page has; not to be changed."""
    folder = tmp_path_factory.mktemp("settled")
    fleets.write(folder, fleets.mixed(100))
    with contextlib.chdir(folder):
        simulated_hosts.settle(begun(folder))
    return folder


@pytest.fixture
def fleet(settled: Path, folder: Path) -> Iterator[Fleet]:
    """A copy of it, to do with as a test likes."""
    shutil.copytree(settled, folder, symlinks=True, dirs_exist_ok=True)
    found = open_fleet(folder)
    with in_place_of_real_hosts(FaultlessHosts(read_desired(found))):
        yield found


@pytest.fixture
def busy(folder: Path) -> Iterator[Fleet]:
    """A fleet of everything, in which some wait and some is refused."""
    full_fleet.write(folder, 5)
    found = begun(folder)
    with in_place_of_real_hosts(FaultlessHosts(read_desired(found))):
        look(found)
        shown("apply", "--auto-approve=destroys", code=1)
        yield found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each page that was made and not recalled."""
    found: list[str] = []
    glance = status.glance

    def counted(*args: object, **given: object) -> object:
        found.append("")
        return glance(*args, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(status, "glance", counted)
    return found


def test_is_shown_again_word_for_word(fleet: Fleet, made: list[str]) -> None:
    first = shown("status")
    assert shown("status").splitlines()[:-1] == first.splitlines()[:-1] and len(made) == 1
    assert shown("status", "--all") != first and len(made) == 2, "others are made each time"
    assert shown("status", "-o", "json") and len(made) == 3


def test_is_made_anew_after_an_edit(fleet: Fleet, made: list[str]) -> None:
    shown("status")
    person = fleet.folder / "specs/people/team-0/p0-0.yaml"
    person.write_text(person.read_text().replace("Person", "Somebody"), encoding="utf-8")
    assert "with edits" in shown("status") and len(made) == 2
    git("commit", "--quiet", "--all", "--message=changed")
    assert "with edits" not in shown("status") and len(made) == 3


def test_is_made_anew_after_anything_is_written_down(fleet: Fleet, made: list[str]) -> None:
    shown("status")
    with writing(fleet, "suspend") as journal:
        since = format_moment(fleet.now())
        scope = "user/p0-0"
        journal.enter(
            "suspend",
            suspensions.begin,
            Suspension(scope=scope, reason="why", actor="olga", since=since, until=""),
        )
    assert "user/p0-0 by" in (told := shown("status")), told
    assert len(made) == 2


def test_is_made_anew_after_hosts_have_answered(fleet: Fleet, made: list[str]) -> None:
    shown("status")
    look(fleet)
    shown("status")
    assert len(made) == 2


def test_is_not_shown_while_somebody_is_at_work(fleet: Fleet, made: list[str]) -> None:
    shown("status")
    with writing(fleet, "apply"):
        shown("status")
        shown("status")
    assert len(made) == 3
    shown("status")
    assert len(made) in (3, 4), "whether anything was written decides"


def test_is_not_kept_where_nobody_knows_what_changed(fleet: Fleet, made: list[str]) -> None:
    git("update-index", "--assume-unchanged", "specs/fleet/policy.yaml")
    shown("status")
    shown("status")
    assert len(made) == 2


def test_a_clock_that_goes_back_recalls_nothing(fleet: Fleet) -> None:
    key = pages.page_key(fleet, "status 0")
    pages.remember_page(fleet, key, ["x"], None)
    assert pages.recall_page(fleet, key) is not None
    at = utc_now() - timedelta(minutes=1)
    assert pages.recall_page(replace(fleet, now=lambda: at), key) is None


def test_a_page_is_of_who_asks(fleet: Fleet) -> None:
    """What no commit has is judged by whoever asks, so another one is shown their own page."""
    other = replace(fleet, actor=replace(fleet.actor, name="mallory"))
    assert pages.page_key(fleet, "status 0") != pages.page_key(other, "status 0")


def body(fleet: Fleet, at: datetime) -> tuple[list[str], datetime | None]:
    made = status.glance(replace(fleet, now=lambda: at))
    lines = [render(one) for one in status_view.body(made.status, most=20)]
    return lines, made.lasts_until(status_view.shown(made.status, 20))


def test_time_alone_changes_nothing_before_it_is_over(busy: Fleet) -> None:
    """From now on from one end to the next, through the ends of evidence, leases, suspensions."""
    start = utc_now()
    with writing(busy, "suspend") as journal:
        for scope, minutes in (("user/team-0-1", 3), ("node/team-1", 90)):
            since, until = (format_moment(start + timedelta(minutes=m)) for m in (0, minutes))
            one = Suspension(scope=scope, reason="why", actor="olga", since=since, until=until)
            journal.enter("suspend", suspensions.begin, one)
    at, seen = utc_now(), set()
    for hop in range(60):
        lines, until = body(busy, at)
        seen.add("\n".join(lines))
        if until is None:
            break
        assert until >= at
        for moment in (at + 0.5 * (until - at), at + 0.999 * (until - at)):
            # Of less than a millisecond the end is the nearest moment that there is.
            assert moment == until or body(busy, moment)[0] == lines, f"{at} {until}"
        # A minute, an hour, a day: what is told in seconds would else take all hops.
        at = max(until + timedelta(seconds=1), at + timedelta(minutes=hop * hop))
    assert len(seen) > 5


@pytest.mark.parametrize("seconds", [0, 41, 119, 120, 3599, 7199, 7200, 172799, 172800, 9**7])
def test_an_age_is_told_the_same_until_it_is_not(seconds: int) -> None:
    now = datetime.fromisoformat("2026-01-01T00:00:00.5+00:00")
    for sign in (1, -1):
        at = now - sign * timedelta(seconds=seconds)

        def told(moment: datetime, at: datetime = at, sign: int = sign) -> str:
            return format_age(sign * (moment - at).total_seconds())

        until, little = next_age(at, now), timedelta(milliseconds=1)
        assert until >= now
        assert until == now or told(until - little) == told(now)
        assert told(until + little) != told(now) or seconds == 0


def test_a_page_holds_what_is_gravest_and_says_how_many_more(fleet: Fleet) -> None:
    some = status.status(fleet)
    first = some.allocations[0]
    every = [replace(first, ref=f"allocation/vision/run-{number:02}") for number in range(30)]
    every[-1] = grave = replace(every[-1], health="degraded")
    found = replace(some, allocations=tuple(every))
    page = status_view.shown(found, 20)
    assert page == [grave, *every[:19]]
    assert status_view.shown(found, None) == found.allocations == status_view.shown(found, 30)
    lines = [render(one) for one in status_view.lines(found, most=20)]
    assert lines[-2] == "… 10 more: gpuaas status --all"
    rest = shown("status", "--all").splitlines()
    assert len(rest) == len(shown("status").splitlines()) - 1 + 8


def test_a_filter_is_no_page(fleet: Fleet) -> None:
    one = shown("status", "--project", "team-0")
    assert one.count("team-0/") == 6 and "more: gpuaas status --all" not in one
