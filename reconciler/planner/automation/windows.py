"""Windows: whether one is open, by the local time of its zone, and when that changes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from reconciler.kinds.automation import DAYS, Window, zone

AHEAD = 15
"""Days to look into: a window of one day of the week may be skipped once by a clock put forward."""

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@lru_cache(maxsize=1024)
def is_open(window: Window, now: datetime) -> bool:
    """One whose zone this machine does not know is shut: more is held by that, never less."""
    at = zone(window.time_zone)
    return at is not None and _shows(window, at, now)


def _shows(window: Window, at: tzinfo, now: datetime) -> bool:
    local = now.astimezone(at)
    clock, today = local.time().replace(tzinfo=None), local.date()
    begin, end = time.fromisoformat(window.from_), time.fromisoformat(window.to)
    if begin < end:
        return begin <= clock < end and _opens_on(window, today)
    evening = clock >= begin and _opens_on(window, today)
    return evening or (clock < end and _opens_on(window, today - DAY))


@lru_cache(maxsize=1024)
def turns(window: Window, now: datetime) -> datetime | None:
    """The next moment at which it opens or shuts; None if it never does within `AHEAD` days."""
    at = zone(window.time_zone)
    if at is None:
        return None
    open_now = is_open(window, now)
    moments = sorted(moment for moment in _moments(window, at, now) if moment > now)
    return next((one for one in moments if _shows(window, at, one) is not open_now), None)


def opens(window: Window, now: datetime) -> datetime | None:
    """When it is open next; `now` itself if it is."""
    if is_open(window, now):
        return now
    return turns(window, now)


def next_turn(windows: Iterable[Window], now: datetime) -> datetime | None:
    return min(filter(None, (turns(one, now) for one in windows)), default=None)


def _opens_on(window: Window, day: date) -> bool:
    return not window.days or DAYS[day.weekday()] in window.days


def _moments(window: Window, at: tzinfo, now: datetime) -> Iterator[datetime]:
    """Every moment at which it may turn: what its clock is to show, and where that clock jumps."""
    today = now.astimezone(at).date()
    for day in (today + DAY * number for number in range(-1, AHEAD)):
        for text in (window.from_, window.to):
            for fold in (0, 1):
                shown = datetime.combine(day, time.fromisoformat(text), at).replace(fold=fold)
                yield shown.astimezone(UTC)
        yield from _jumps(datetime.combine(day, time(0), UTC), at)


def _jumps(begin: datetime, at: tzinfo) -> Iterator[datetime]:
    """The moment within this day at which the clock is put forward or back, to the minute."""
    end = begin + DAY
    before = _offset(begin, at)
    if _offset(end, at) == before:
        return
    while end - begin > MINUTE:
        middle = begin + (end - begin) // 2
        middle -= timedelta(seconds=middle.second, microseconds=middle.microsecond)
        if middle <= begin:
            break
        if _offset(middle, at) == before:
            begin = middle
        else:
            end = middle
    yield end


def _offset(moment: datetime, at: tzinfo) -> timedelta | None:
    return moment.astimezone(at).utcoffset()
