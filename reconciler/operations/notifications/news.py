"""News: what one round reports that the one before did not, one line a decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.model.plan.plan import Change
from reconciler.model.records import dataclass
from reconciler.operations.rounds.rounds import Tick


class Level(StrEnum):
    """Levels as syslog and journald have them."""

    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """`event` is one of a few words; `about` a ref, a node, or empty for the loop itself.

    `code` says of which sort it is, where there are several. `ends` is the event that this is the
    end of, of the same `about`, and of the same `code` if it has one.
    """

    level: Level
    event: str
    text: str
    about: str = ""
    code: str = ""
    ends: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


BY_CODE = frozenset({"problem", "degraded"})
"""Events of which there are several about the loop itself."""


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
        yield from self._mended(tick)
        yield from self._contested(tick)
        held = {str(c.ref): (c.problem.code, _why(c)) for c in tick.held if c.problem is not None}
        yield from self._standing("held", held, tick)
        told = {p.code: (p.code, f"{p.code}: {p.message}") for p in tick.problems if not p.ref}
        yield from self._standing("problem", told, tick)

    def refused(self, code: str, text: str) -> Iterator[News]:
        """A round that could not be; said again only when it is for another reason."""
        if self.standing.get(("refused", "")) != code:
            self.standing[("refused", "")] = code
            yield News(level=Level.ERROR, event="refused", text=text, code=code)

    def went(self) -> Iterator[News]:
        """A round that could be again."""
        if self.standing.pop(("refused", ""), None) is not None:
            yield News(level=Level.NOTICE, event="recovered", text="rounds go on", ends="refused")

    def less(self, what: str, why: str) -> Iterator[News]:
        """What the loop does besides its rounds, and why it cannot just now; empty if it can."""
        known = self.standing.get(("degraded", what), "")
        if why and why != known:
            self.standing[("degraded", what)] = why
            yield News(level=Level.WARNING, event="degraded", text=f"{what}: {why}", code=what)
        elif not why and self.standing.pop(("degraded", what), None) is not None:
            yield News(
                level=Level.NOTICE,
                event="recovered",
                text=f"{what} goes on",
                code=what,
                ends="degraded",
            )

    def resume(self, event: str, about: str, code: str) -> None:
        """What another process said and did not see the end of: it is said anew, or is over."""
        name = code if event in BY_CODE else about
        self.standing.setdefault((event, name), "")

    def _failed(self, name: str, code: str, message: str, retry: int) -> Iterator[News]:
        known = self.standing.get(("failed", name))
        self.standing[("failed", name)] = code
        if known != code:
            yield News(
                level=Level.ERROR,
                event="failed",
                about=name,
                text=f"{name} failed, {code}: {message}; again in {retry} s",
                code=code,
            )

    def _mended(self, tick: Tick) -> Iterator[News]:
        """What had failed and succeeded, or what nobody has anything to do about any more."""
        names = {about for sort, about in self.standing if sort == "failed"}
        over = set(tick.recovered) - set(tick.disputed)
        over |= names & {str(change.ref) for change in tick.done}
        if tick.plan is not None:
            refs = {str(change.ref) for change in tick.plan.changes}
            over |= names - refs - set(tick.silent)
        for name in sorted(over - {one.name for one in tick.failed}):
            self.standing.pop(("failed", name), None)
            yield News(
                level=Level.NOTICE,
                event="recovered",
                about=name,
                text=f"{name} is well",
                ends="failed",
            )

    def _contested(self, tick: Tick) -> Iterator[News]:
        known = {about for sort, about in self.standing if sort == "contested"}
        for name in tick.contested:
            if not self.standing.get(("contested", name)):
                self.standing[("contested", name)] = name
                yield News(
                    level=Level.WARNING,
                    event="contested",
                    about=name,
                    text=f"{name} is changed again as soon as it is mended: it is mended less",
                )
        for name in sorted(known - set(tick.disputed)):
            del self.standing[("contested", name)]
            yield News(
                level=Level.NOTICE,
                event="recovered",
                about=name,
                text=f"{name} stays as it was mended",
                ends="contested",
            )

    def _standing(
        self, event: str, now: Mapping[str, tuple[str, str]], tick: Tick
    ) -> Iterator[News]:
        """`now` is what there is of it, by what it is about: its code, and the words for it."""
        before = {about: why for (sort, about), why in self.standing.items() if sort == event}
        for about, (code, why) in now.items():
            if before.get(about) != why:
                self.standing[(event, about)] = why
                name = about if event == "held" else ""
                yield News(level=Level.WARNING, event=event, about=name, text=why, code=code)
        if tick.idle and tick.plan is None:
            return
        for about in before.keys() - now.keys():
            del self.standing[(event, about)]
            held = event == "held"
            yield News(
                level=Level.NOTICE,
                event="settled",
                about=about if held else "",
                text=f"{about}: no longer held" if held else f"{about} is over",
                code="" if held else about,
                ends=event,
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
    assert problem is not None
    return f"{change.action} {change.ref} is not done, {problem.code}: {problem.message}"
