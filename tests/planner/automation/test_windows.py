"""Windows by the clock on the wall: open or shut, across midnight and both switches of the clock.

F-REC-14: summer time begins and ends, and no window is open for longer than its clock says.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.kinds.automation import Allow, Window, zone
from reconciler.planner.automation.windows import is_open, next_turn, opens, turns

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def window(begin: str, end: str, at: str = BERLIN, days: tuple[str, ...] = ()) -> Window:
    return Window(name="night", from_=begin, to=end, time_zone=at, days=days, allow=Allow.DESTROYS)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def open_spans(one: Window, since: str, hours: int) -> list[str]:
    """Each time that it opens and shuts in UTC, found by asking at every minute."""
    begin, spans, was = utc(since), [], False
    for minute in range(hours * 60 + 1):
        now = begin + timedelta(minutes=minute)
        if (is_ := is_open(one, now)) is not was:
            spans.append(f"{'+' if is_ else '-'}{now:%dT%H:%M}")
            was = is_
    return spans


# A day in winter and one in summer; the nights of 28 March and 31 October 2027, when the clocks of
# Berlin jump from 02:00 to 03:00 (at 01:00 UTC), and from 03:00 to 02:00 (at 01:00 UTC).
NIGHTS = [
    ("winter", window("01:30", "02:30"), "2027-01-10T00:00", ["+10T00:30", "-10T01:30"]),
    ("summer", window("01:30", "02:30"), "2027-07-10T12:00", ["+10T23:30", "-11T00:30"]),
    ("forward, half of it", window("01:30", "02:30"), "2027-03-28T00:00",
     ["+28T00:30", "-28T01:00"]),
    ("forward, all of it", window("02:10", "02:50"), "2027-03-28T00:00", []),
    ("forward, over it", window("01:30", "03:30"), "2027-03-28T00:00", ["+28T00:30", "-28T01:30"]),
    ("forward, from it", window("02:30", "04:00"), "2027-03-28T00:00", ["+28T01:00", "-28T02:00"]),
    ("back, half of it", window("01:30", "02:30"), "2027-10-30T23:00",
     ["+30T23:30", "-31T00:30", "+31T01:00", "-31T01:30"]),
    ("back, all of it", window("02:10", "02:50"), "2027-10-30T23:00",
     ["+31T00:10", "-31T00:50", "+31T01:10", "-31T01:50"]),
    ("back, over it", window("01:30", "03:30"), "2027-10-30T23:00", ["+30T23:30", "-31T02:30"]),
    ("over midnight", window("22:00", "04:00"), "2027-01-10T12:00", ["+10T21:00", "-11T03:00"]),
    ("over midnight, forward", window("22:00", "04:00"), "2027-03-27T12:00",
     ["+27T21:00", "-28T02:00"]),
    ("over midnight, back", window("22:00", "04:00"), "2027-10-30T12:00",
     ["+30T20:00", "-31T03:00"]),
    # The evening of its day, though the morning is another day's.
    ("of Saturday", window("22:00", "04:00", days=("sat",)), "2027-01-09T12:00",
     ["+09T21:00", "-10T03:00"]),
    ("of Sunday", window("00:00", "04:00", days=("sun",)), "2027-01-09T12:00",
     ["+09T23:00", "-10T03:00"]),
    ("elsewhere", window("01:30", "02:30", NEW_YORK), "2027-03-14T00:00",
     ["+14T06:30", "-14T07:00"]),
    ("in UTC", window("01:30", "02:30", "UTC"), "2027-03-28T00:00", ["+28T01:30", "-28T02:30"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "one", "since", "expected"), NIGHTS, ids=[n[0] for n in NIGHTS])
def test_a_window_is_open_while_its_clock_shows_it(
    name: str, one: Window, since: str, expected: list[str]
) -> None:
    del name
    assert open_spans(one, since, 20) == expected


@pytest.mark.parametrize(("name", "one", "since", "expected"), NIGHTS, ids=[n[0] for n in NIGHTS])
def test_each_turn_is_foretold(name: str, one: Window, since: str, expected: list[str]) -> None:
    """The next turn is the one that asking at every minute finds, wherever one begins to look."""
    del name
    begin = utc(since)
    for text in expected:
        moment = turns(one, begin)
        assert moment is not None
        assert f"{moment:%dT%H:%M}" == text[1:]
        assert is_open(one, moment) is (text[0] == "+")
        assert is_open(one, moment - timedelta(minutes=1)) is (text[0] == "-")
        begin = moment


def test_when_it_is_open_next() -> None:
    one = window("01:30", "02:30", days=("sun",))
    assert opens(one, utc("2027-01-10T01:00")) == utc("2027-01-10T01:00")
    assert opens(one, utc("2027-01-10T12:00")) == utc("2027-01-17T00:30")
    # The one night of the week on which it could be is the one in which there is no such hour.
    skipped = window("02:10", "02:50", days=("sun",))
    assert opens(skipped, utc("2027-03-22T12:00")) == utc("2027-04-04T00:10")
    both = [one, window("05:00", "06:00")]
    assert next_turn(both, utc("2027-01-10T12:00")) == utc("2027-01-11T04:00")
    assert next_turn([], utc("2027-01-10T12:00")) is None


def test_a_zone_that_nobody_knows_opens_nothing() -> None:
    one = window("00:00", "23:59", "Mars/Olympus")
    assert zone("Mars/Olympus") is zone("Europe") is zone("../../etc/passwd") is None
    assert not is_open(one, utc("2027-01-10T12:00"))
    assert turns(one, utc("2027-01-10T12:00")) is None
