"""Findings: how a kind's check says what is wrong, and the checks that several kinds need.

An element of a keyed list is addressed by its key, not by its number: lists are sorted when they
are parsed, and only the document knows where each element stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.problem import PathPart, Problem, Severity
from reconciler.model.spec.resource import Resource

Path = tuple[PathPart, ...]


def finding(resource: Resource, path: Path, code: str, message: str, hint: str = "") -> Problem:
    """An error at `path` of the resource's document."""
    source = resource.source(*path)
    return Problem(code=code, message=message, hint=hint, source=source, ref=str(resource.ref))


def warning(resource: Resource, path: Path, code: str, message: str, hint: str = "") -> Problem:
    return replace(finding(resource, path, code, message, hint), severity=Severity.WARNING)


@lru_cache(maxsize=4096)
def same_moment(text: str | None) -> str | None:
    """A time in its one stored form; what is no time stays as it is, for `unreal_times`."""
    moment = parse_moment(text) if text else None
    return format_moment(moment) if moment else text


def unreal_times(resource: Resource, times: Iterable[tuple[Path, str | None]]) -> Iterator[Problem]:
    """Times of the right form that no calendar has, such as 30 February."""
    for path, text in times:
        if text and text != "none" and parse_moment(text) is None:
            message = f"{text} is on no calendar"
            yield finding(resource, path, "value_pattern", message, "check the day and the month")


def unsound_texts(
    resource: Resource, texts: Iterable[tuple[Path, str | None]], why_none: Callable[[str], str]
) -> Iterator[Problem]:
    """Texts whose characters are right and whose meaning is none, such as 300.1.1.1."""
    for path, text in texts:
        if text and (why := why_none(text)):
            yield finding(resource, path, "value_pattern", why, "check how it is spelled")


def check_prices(resource: Resource, starts: Sequence[str]) -> Iterator[Problem]:
    """A price list is read from its end: each price starts later than the one before."""
    places: list[Path] = [("spec", "prices", at, "from") for at in range(len(starts))]
    yield from unreal_times(resource, zip(places, starts, strict=True))
    moments = [parse_moment(start) for start in starts]
    for place, before, after in zip(places[1:], moments, moments[1:], strict=False):
        if before and after and after <= before:
            message = "this price does not start later than the one before it"
            hint = "append the newest price at the end; never change an old one"
            yield finding(resource, place, "price_unsound", message, hint)


def unsafe_path(text: str, *, absolute: bool) -> str:
    """Why `text` may not be used as a path; empty if it may."""
    if ".." in text.split("/"):
        return f"{text} climbs out of its place by `..`"
    if absolute and not text.startswith("/"):
        return f"{text} is not absolute"
    if not absolute and text.startswith("/"):
        return f"{text} is absolute"
    return ""


def twice(entries: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, Path, Path]]:
    """Each value that stands a second time, with its place and the first place."""
    seen: dict[str, Path] = {}
    for value, path in entries:
        if value in seen:
            yield value, path, seen[value]
        seen.setdefault(value, path)
