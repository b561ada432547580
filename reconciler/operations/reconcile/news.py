"""News: what one round has to say that the one before had not said, a line a decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.model.plan import Change
from reconciler.model.records import dataclass
from reconciler.operations.reconcile.rounds import Tick


class Level(StrEnum):
    """As syslog and journald have them."""

    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """`event` is one of a few words; `about` a ref, a node, or empty for the loop itself."""

    level: Level
    event: str
    text: str
    about: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Teller:
    """Knows what it has said: what stays as it is is said once, and once more when it is over."""

    standing: dict[tuple[str, str], str] = field(default_factory=dict)

    def tell(self, tick: Tick) -> Iterator[News]:
        if tick.commit and self.standing.get(("commit", "")) != tick.commit:
            self.standing[("commit", "")] = tick.commit
            yield News(
                level=Level.NOTICE,
                event="commit",
                text=f"following {tick.commit[:7]}",
                fields={"commit": tick.commit},
            )
        for change in tick.done:
            yield _done(change, tick)
        for one in tick.failed:
            yield from self._failed(one.name, one.code, one.message, one.retry_seconds)
        for name in tick.recovered:
            self.standing.pop(("failed", name), None)
            yield News(level=Level.NOTICE, event="recovered", about=name, text=f"{name} is well")
        for name in tick.contested:
            yield News(
                level=Level.WARNING,
                event="contested",
                about=name,
                text=f"{name} is changed again as soon as it is mended: it is mended less often",
            )
        yield from self._standing("held", {str(c.ref): _why(c) for c in tick.held}, tick)
        told = {p.code: f"{p.code}: {p.message}" for p in tick.problems if not p.ref}
        yield from self._standing("problem", told, tick)

    def refused(self, code: str, text: str) -> Iterator[News]:
        """A round that could not be; said again only when it is for another reason."""
        if self.standing.get(("round", "")) != code:
            self.standing[("round", "")] = code
            yield News(level=Level.ERROR, event="refused", text=text, fields={"code": code})

    def went(self) -> Iterator[News]:
        """A round that could be again."""
        if self.standing.pop(("round", ""), None) is not None:
            yield News(level=Level.NOTICE, event="recovered", text="rounds go on")

    def less(self, what: str, why: str) -> Iterator[News]:
        """What the loop does besides its rounds, and why it cannot just now; empty if it can."""
        known = self.standing.get(("degraded", what), "")
        if why and why != known:
            self.standing[("degraded", what)] = why
            yield News(level=Level.WARNING, event="degraded", text=f"{what}: {why}")
        elif known and not why:
            del self.standing[("degraded", what)]
            yield News(level=Level.NOTICE, event="recovered", text=f"{what} goes on")

    def _failed(self, name: str, code: str, message: str, retry: int) -> Iterator[News]:
        known = self.standing.get(("failed", name))
        self.standing[("failed", name)] = code
        if known != code:
            yield News(
                level=Level.ERROR,
                event="failed",
                about=name,
                text=f"{name} failed, {code}: {message}; again in {retry} s",
                fields={"code": code},
            )

    def _standing(self, event: str, now: Mapping[str, str], tick: Tick) -> Iterator[News]:
        before = {about: why for (sort, about), why in self.standing.items() if sort == event}
        for about, why in now.items():
            if before.get(about) != why:
                self.standing[(event, about)] = why
                name = about if event == "held" else ""
                yield News(level=Level.WARNING, event=event, about=name, text=why)
        if tick.idle and tick.plan is None:
            return
        for about in before.keys() - now.keys():
            del self.standing[(event, about)]
            yield News(
                level=Level.NOTICE, event="settled", about=about, text=f"{about}: no longer {event}"
            )


def _done(change: Change, tick: Tick) -> News:
    place = f" on {change.placement.node}" if change.placement else ""
    by = f" by {change.origin.author}" if change.origin.author else ""
    commit = change.origin.commit or tick.commit
    return News(
        level=Level.INFO,
        event="done",
        about=str(change.ref),
        text=f"{change.action} {change.ref}{place} ({commit[:7]}{by})",
        fields={
            "action": change.action.value,
            "commit": commit,
            "author": change.origin.author,
            "file": change.file,
            "run": tick.run,
        },
    )


def _why(change: Change) -> str:
    problem = change.problem
    if problem is None:
        return ""
    return f"{change.action} {change.ref} is not done, {problem.code}: {problem.message}"
