"""Events as text: each is one line, whatever it contains."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from reconciler.cli.text import TextLine, column, dim, line, pad, strong
from reconciler.model.state.event import Event


def lines(events: Iterable[Event]) -> Iterator[TextLine]:
    found = False
    for event in events:
        found = True
        yield one(event)
    if not found:
        yield line(dim("no events"))


def one(event: Event) -> TextLine:
    """One event as a line: `#12  2026-11-27T09:14:03Z  ana  claimed  allocation/…`, details,
    component.
    """
    known = (
        event.ref,
        f"in {event.commit[:7]}" if event.commit else "",
        event.run,
        json.dumps(event.reason, ensure_ascii=False) if event.reason else "",
        f"({event.component})",
    )
    return line(
        dim(column(f"#{event.sequence}", 7)),
        f"{event.at}  {pad(event.actor, 10)}  ",
        strong(column(event.type.value, 16)),
        "".join(f"  {part}" for part in known if part),
        hang=9,
    )
