"""A command is killed at every stop that it comes to; the next one finishes what it began."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import chdir

import pytest
from _pytest.mark import ParameterSet

from reconciler.stops import STOPS
from tests.harness.crash import (
    ELSEWHERE,
    SCENARIOS,
    Scenario,
    Uninterrupted,
    end_of,
    files_of,
    kill,
    stops_of,
    takeovers,
    takes_nothing_held,
    uninterrupted,
)

pytestmark = pytest.mark.walk

AT_WORK = ("begin_wave", "play", "prove", "finish_wave")
"""Around these it matters what is being done; elsewhere one command dies like another."""

NOTHING_SINCE = {
    "play.before": "begin_wave.after",
    **dict.fromkeys(("play.after", "prove.before", "prove.after"), "finish_wave.before"),
}
"""Between one of these and the other stop nothing is written: that one stands for it.

Only what frees a place dies at all of them.
"""

BY_ANSIBLE = frozenset(
    {"create-play.during", "create-play.after", "release-play.during", "move-play.during"}
)
"""Where the real one is killed with its command; by `make slow` it is wherever a host works."""


def every() -> Iterator[ParameterSet]:
    """Each stop of each scenario; where another died alike before, it is left to `make slow`."""
    met: set[str] = set()
    for scenario in SCENARIOS:
        for stop in scenario.stops:
            name = f"{scenario.name}-{stop}"
            at_work = stop.startswith(AT_WORK)
            stands = NOTHING_SINCE.get(stop) in scenario.stops and scenario.name != "release"
            alike = stop in met and (stands or not at_work)
            met.add(stop)
            if alike or name in BY_ANSIBLE:
                marks = [pytest.mark.ansible, *([pytest.mark.slow] if alike else [])]
                yield pytest.param(scenario, stop, id=name, marks=marks)
                continue
            yield pytest.param(scenario, stop, id=name)
            if at_work:
                marks = [pytest.mark.ansible, pytest.mark.slow]
                yield pytest.param(scenario, stop, id=f"{name}-ansible", marks=marks)


WITHOUT_A_STATE = ("init", "restore", "migrate")


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Scenario], Uninterrupted]:
    """Each scenario without a kill, run when it is first asked for."""
    known: dict[str, Uninterrupted] = {}

    def find(scenario: Scenario) -> Uninterrupted:
        if scenario.name not in known:
            folder = tmp_path_factory.mktemp(scenario.name)
            known[scenario.name] = uninterrupted(scenario, folder)
        return known[scenario.name]

    return find


@pytest.mark.parametrize(("scenario", "stop"), [*every()])
def test_a_killed_command_is_finished_by_the_next_one(
    scenario: Scenario,
    stop: str,
    once: Callable[[Scenario], Uninterrupted],
    record_property: Callable[[str, object], None],
) -> None:
    """F-STA-01, LCH-05, F-PLC-02, F-PLC-06, CRD-05: as if nobody had been killed.

    One allocation and one set of claims, on the books and on the hosts; nothing doubled, nothing
    lost, nothing that works on; and meanwhile nobody is given what somebody holds.
    """
    first = once(scenario)
    # The last time: what came before it is done by then, and not to be done again.
    number = first.times[stop]
    yard = first.again()
    pid = kill(yard, scenario.command, stop, number)
    end_of(pid, yard)
    if scenario.name not in WITHOUT_A_STATE:
        takes_nothing_held(yard)
    with chdir(yard.folder):
        again = yard.gpuaas(*scenario.again)
    assert again.code in (0, 3), again.document
    assert scenario.look(yard) == first.seen, f"{stop}#{number}"
    if scenario.name not in WITHOUT_A_STATE:
        assert takeovers(yard, pid) == ("lock.taken" in first.times)
        assert files_of(pid, yard.folder) == []
    record_property("killed", f"{scenario.name} {stop}#{number}")


def test_every_stop_of_the_table_is_killed_at_by_some_test() -> None:
    killed = {stop for scenario in SCENARIOS for stop in scenario.stops}
    killed.update(stop for words in ELSEWHERE.values() for stop in stops_of(words))
    assert killed == STOPS.keys()
