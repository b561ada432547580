"""Automation: what the Policy lets go without approval, and when.

A window is open while the clock on the wall of its zone shows a time in it: an hour that a night
skips is in no window that night, and one that comes twice is in it both times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar
from zoneinfo import ZoneInfo

from reconciler.kinds.checks.findings import Path, finding, same_moment, unreal_times, warning
from reconciler.model.moment import parse_moment
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource


class Allow(StrEnum):
    """The worst that goes alone: a risk, or nothing."""

    NONE = "none"
    SAFE = "safe"
    INTERRUPTS = "interrupts"
    DESTROYS = "destroys"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationRule:
    """What is allowed of these projects and kinds; none named are all."""

    allow: Allow
    projects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window of time, by local times of day.

    `from_` and `to` are times of day in `time_zone`; one that ends before it begins ends on the
    next day. `days` are those on which it opens, all if none is named.
    """

    name: str
    from_: str
    to: str
    time_zone: str
    allow: Allow
    days: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    name: str
    from_: str
    until: str
    reason: str
    projects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Automation:
    allow: Allow = Allow.SAFE
    rules: tuple[AutomationRule, ...] = ()
    windows: tuple[Window, ...] = ()
    freezes: tuple[Freeze, ...] = ()


Scoped = TypeVar("Scoped", AutomationRule, Window, Freeze)

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo | None:
    """A zone by its name, as this machine knows it; None if it does not."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def in_order(automation: Automation) -> Automation:
    """The one form in which it is kept; rules keep their order."""
    rules = (_sets(one) for one in automation.rules)
    windows = (replace(_sets(one), days=_days(one.days)) for one in automation.windows)
    freezes = (
        replace(
            _sets(one),
            from_=same_moment(one.from_) or one.from_,
            until=same_moment(one.until) or one.until,
        )
        for one in automation.freezes
    )
    return replace(
        automation,
        rules=tuple(rules),
        windows=tuple(sorted(windows, key=attrgetter("name"))),
        freezes=tuple(sorted(freezes, key=attrgetter("name"))),
    )


def _sets(one: Scoped) -> Scoped:
    return replace(one, projects=tuple(sorted(one.projects)), kinds=tuple(sorted(one.kinds)))


def _days(named: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(day for day in DAYS if day in named)


PATH: Path = ("spec", "automation")


def check(resource: Resource, desired: Desired) -> Iterator[Problem]:
    """A window of no length, a zone that nobody knows, a freeze that ends before it begins."""
    automation: Automation = resource.spec.automation
    for window in automation.windows:
        path = (*PATH, "windows", window.name)
        if window.from_ == window.to:
            message = f"{window.name} opens and shuts at {window.to}: it has no length"
            hint = "for the whole day, state it in rules"
            yield finding(resource, (*path, "to"), "document_rejected", message, hint)
        if zone(window.time_zone) is None:
            message = f"{window.time_zone} is no time zone that this machine knows"
            hint = "name one of the IANA list, as in Europe/Berlin; or install tzdata"
            yield finding(resource, (*path, "timeZone"), "value_pattern", message, hint)
    for freeze in automation.freezes:
        path = (*PATH, "freezes", freeze.name)
        times = (((*path, "from"), freeze.from_), ((*path, "until"), freeze.until))
        yield from unreal_times(resource, times)
        begins, ends = parse_moment(freeze.from_), parse_moment(freeze.until)
        if begins and ends and ends <= begins:
            message = f"{freeze.name} ends before it begins"
            hint = "state a later until"
            yield finding(resource, (*path, "until"), "document_rejected", message, hint)
    yield from _nowhere(resource, desired)


def _nowhere(resource: Resource, desired: Desired) -> Iterator[Problem]:
    """A project that is not there is no error: a policy outlives projects. But it may be a typo."""
    automation: Automation = resource.spec.automation
    stated: tuple[tuple[Path, tuple[str, ...]], ...] = (
        *((("rules", at), one.projects) for at, one in enumerate(automation.rules)),
        *((("windows", one.name), one.projects) for one in automation.windows),
        *((("freezes", one.name), one.projects) for one in automation.freezes),
    )
    for place, projects in stated:
        for name in projects:
            if not desired.names(Ref("project", "", name)):
                message = f"there is no project {name}, so this is about nothing of it"
                path = (*PATH, *place, "projects")
                yield warning(resource, path, "dangling_reference", message, "check the name")
