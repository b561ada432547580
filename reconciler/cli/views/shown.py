"""One resource: its facts, its four states side by side in time, and its history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.cli.text import BLANK, TextLine, column, conceal, dim, line, strong
from reconciler.cli.views import events as events_view
from reconciler.model.state.event import EventType
from reconciler.operations.views import Shown

LABEL = 11
LAST_EVENTS = 10


def lines(found: Shown) -> Iterator[TextLine]:
    yield line(strong(found.ref))
    if found.file:
        by = f" in {found.commit[:7]} by {found.author}" if found.commit else ", not committed"
        yield _fact("file", f"{found.file}:{found.line}{by}")
    for label, text in found.facts.items():
        yield _fact(label, text)
    if found.source:
        yield line(dim(f"as published at {found.source}"))
        return
    yield from _state("DESIRED", found.desired, "not in the specs")
    yield from _state("RECORDED", found.recorded, _off_the_books(found))
    yield from _state("OBSERVED", found.observed, "unknown: no host has said anything about it")
    yield from _list("EXECUTION", found.execution)
    yield from _list("CLAIMS", found.claims)
    yield from proofs(found.proofs)
    if found.events:
        yield BLANK
        yield line(strong("EVENTS"))
        yield from (events_view.one(event) for event in found.events[-LAST_EVENTS:])


def _off_the_books(found: Shown) -> str:
    known = {event.type for event in found.events}
    left = known & {EventType.FORGOTTEN, EventType.RENAMED}
    return "no longer on the books: see its events" if left else "never applied"


def _fact(label: str, text: str) -> TextLine:
    return line(dim(column(label, LABEL)), text, hang=LABEL)


def _state(title: str, state: Mapping[str, object] | None, none: str) -> Iterator[TextLine]:
    yield BLANK
    yield line(strong(title), "" if state is not None else f"  {none}")
    yield from _tree(state or {}, 1)


def _list(title: str, rows: tuple[Mapping[str, object], ...]) -> Iterator[TextLine]:
    if rows:
        yield BLANK
        yield line(strong(title))
    for row in rows:
        pairs = (f"{key} {_value(value)}" for key, value in row.items() if value not in ("", None))
        yield line("  ", "  ".join(pairs), hang=4)


def proofs(told: tuple[Mapping[str, Any], ...]) -> Iterator[TextLine]:
    """A proof is as good as its checks, so each of them is shown."""
    for number, proof in enumerate(told):
        if not number:
            yield BLANK
            yield line(strong("PROOFS"))
        words = [
            f"{proof['node']}/{proof['slot'] or '*'}",
            "passed" if proof["passed"] else "failed",
        ]
        words += [str(proof["at"]), f"by {proof['source']}"]
        words += [f"freed {proof['freed']}"] if proof["freed"] else []
        yield line("  ", "  ".join(words), hang=4)
        for check in proof["checks"]:
            value = f" ({check['value']})" if check.get("value") else ""
            yield line("    ", f"{check['result']:<8}{check['name']}{value}", hang=12)


def _tree(value: Mapping[str, object], depth: int) -> Iterator[TextLine]:
    """Mappings nest; everything below them stands on one line. What is empty text is left out."""
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield line("  " * depth, dim(f"{key}:"))
            yield from _tree(item, depth + 1)
        elif item not in ("", None):
            yield line("  " * depth, conceal(f"{key}: {_value(item)}"), hang=2 * depth + 2)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
