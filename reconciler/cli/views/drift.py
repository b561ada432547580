"""Drift as text, class by class: whose it is, what differs, and what will be done about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.cli.text import BLANK, Span, Style, TextLine, dim, line, strong
from reconciler.cli.views import tables
from reconciler.model.plan.drift import Acceptance, Becomes, Drift, DriftClass
from reconciler.model.ref import Ref
from reconciler.operations.drift.drift import Drifting

TITLES = "RESOURCE CLASS KEY SHOWS BECOMES"

TONES: Mapping[Becomes, Style] = MappingProxyType(
    {
        Becomes.REPAIRED: Style.WARN,
        Becomes.REPORTED: Style.WARN,
        Becomes.ACCEPTED: Style.DIM,
        Becomes.UNCHECKED: Style.WARN,
    }
)


MOST = 50
"""Rows about one resource."""


def lines(found: Drifting, *, width: int = 0, most: int = MOST) -> Iterator[TextLine]:
    """Of very much about one resource the first are shown, and how much more there is."""
    told: Counter[Ref] = Counter()
    rows = []
    for one in found.found:
        told[one.ref] += 1
        if told[one.ref] <= most:
            rows.append(_row(one))
    yield from tables.lines(TITLES, rows, width=width, none="no drift: all shows as it was made")
    for ref, number in told.items():
        if number > most:
            yield line(Span(f"{ref} ", Style.WARN), f"{number - most} more: gpuaas drift {ref}")
    for name, said in found.silent.items():
        yield line(Span(f"node/{name} ", Style.WARN), f"unknown: {said}", hang=2)
    mended = sum(one.becomes is Becomes.REPAIRED for one in found.found)
    if mended:
        yield BLANK
        yield line(f"{mended} to repair: ", strong("gpuaas apply"))


def accepted(given: Acceptance) -> Iterator[TextLine]:
    yield line(Span("accepted ", Style.GOOD), f"{given.key} of {given.ref}", hang=2)
    yield line(dim("until    "), given.until)
    yield line(dim("shows    "), given.shown or "gone", hang=9)


def retracted(given: Acceptance) -> Iterator[TextLine]:
    yield line(Span("retracted ", Style.GOOD), f"{given.key} of {given.ref} is drift again", hang=2)


def _row(one: Drift) -> tables.Row:
    alarm = one.kind is DriftClass.ACCESS and one.becomes is not Becomes.ACCEPTED
    return (
        str(one.ref),
        Span(one.kind.value, Style.BAD if alarm else Style.PLAIN),
        one.key,
        one.shown or "gone",
        Span(_becomes(one), TONES[one.becomes]),
    )


def _becomes(one: Drift) -> str:
    if one.accepted is not None and one.becomes is Becomes.ACCEPTED:
        given = one.accepted
        return f"accepted by {given.owner} until {given.until}: {given.reason}"
    return "will be repaired" if one.becomes is Becomes.REPAIRED else one.becomes.value
