"""Rounds of the loop as text and as log lines: one line a decision."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from reconciler.cli.screen import Screen
from reconciler.cli.text import Span, Style, TextLine, line
from reconciler.cli.views import plan_json
from reconciler.cli.views.progress import ENDING, STOPPING
from reconciler.model.codec import encode
from reconciler.model.problem import Problem
from reconciler.operations.notifications.news import Level, News
from reconciler.operations.reconcile.loop import Once
from reconciler.operations.reconcile.service.install import Installed
from reconciler.operations.reconcile.source.accept import Accepted
from reconciler.operations.rounds.rounds import Tick

STYLES = {
    Level.INFO: Style.PLAIN,
    Level.NOTICE: Style.PLAIN,
    Level.WARNING: Style.WARN,
    Level.ERROR: Style.BAD,
}
PRIORITY = {Level.INFO: 6, Level.NOTICE: 5, Level.WARNING: 4, Level.ERROR: 3}
"""As syslog(3) counts them; the journal takes them from the head of a line, sd-daemon(3)."""


def teller(screen: Screen, form: str) -> Callable[[News], None]:
    """Writes each piece of news as it comes, on standard error."""
    to_journal = "JOURNAL_STREAM" in os.environ

    def say(news: News) -> None:
        head = f"<{PRIORITY[news.level]}>" if to_journal else ""
        if form == "json":
            screen.notes.write(f"{head}{json.dumps(_fields(news), sort_keys=True)}\n")
            return
        at = "" if to_journal else f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} "
        screen.tell([line(head, at, Span(news.text, STYLES[news.level]))])

    return say


def ending(screen: Screen, form: str) -> Callable[[bool], None]:
    """Says that a wish to end was heard, or the second one. For handlers of signals."""

    def tell(forced: bool) -> None:
        text = ENDING if forced else STOPPING
        news = News(level=Level.NOTICE, event="ending", text=text)
        screen.call_out(json.dumps(_fields(news), sort_keys=True) if form == "json" else text)

    return tell


def refusal(problem: Problem) -> News:
    """The line of a loop that could not begin."""
    fields = {"hint": problem.hint} if problem.hint else {}
    text = f"{problem.code}: {problem.message}"
    return News(level=Level.ERROR, event="refused", text=text, code=problem.code, fields=fields)


def _fields(news: News) -> dict[str, str]:
    """Flat, so that whatever reads logs can index every field of them."""
    said = {
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "level": news.level.value,
        "event": news.event,
        "about": news.about,
        "message": news.text,
    }
    more = {"code": news.code, "ends": news.ends}
    return {**news.fields, **said, **{name: word for name, word in more.items() if word}}


def woken(pid: int) -> Iterator[TextLine]:
    yield line(f"the loop begins a round (pid {pid})")


def accepted(found: Accepted) -> Iterator[TextLine]:
    former = f", in the place of {found.former[:7]}" if found.former else ""
    yield line(f"{found.commit[:7]} is followed from now on{former}")


def installed(found: Installed) -> Iterator[TextLine]:
    for path in found.files:
        yield line(f"+ {path}")
    yield line(f"next: {found.next}")


def lines(found: Once) -> Iterator[TextLine]:
    for news in found.news:
        yield line(Span(news.text, STYLES[news.level]), hang=2)
    tick = found.tick
    took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in tick.seconds.items())
    what = "nothing has changed" if tick.idle else f"{len(tick.done)} done, {len(tick.held)} held"
    hosts = "1 host" if tick.observed == 1 else f"{tick.observed} hosts"
    yield line(f"{tick.commit[:7]}: {what}, {hosts} looked at ({took})", hang=2)


def view(tick: Tick) -> dict[str, object]:
    """One round as a document."""
    told = encode(tick)
    assert isinstance(told, dict)
    told["plan"] = plan_json.view(tick.plan) if tick.plan else None
    told["done"] = [str(change.ref) for change in tick.done]
    return told
