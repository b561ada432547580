"""`runbook`: the page of a code or symptom, and what it concerns in this fleet now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from reconciler import shipped
from reconciler.model.codes import CODES
from reconciler.model.plan.plan import Plan
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.runbooks import RUNBOOKS, runbook_of
from reconciler.model.state.event import Event
from reconciler.model.symptom import SYMPTOMS
from reconciler.operations.fleet import Fleet
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import make_plan
from reconciler.operations.status.doctor import examine
from reconciler.planner.placement.reasons import WORDS
from reconciler.specs.read.suggest import nearest
from reconciler.store import queries

CAPACITY = "capacity"
"""The page of every rule of placement: a rule refuses a node, never by itself an allocation."""

EVENTS_LOOKED_THROUGH, EVENTS_TOLD = 5000, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something with this code that is so now; `command` is the next thing to type, if known."""

    code: str
    about: str
    text: str
    since: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """A runbook; `meaning` is that of the word asked for, `facts` are those of now.

    `lately` are recorded facts. `unknown` says why nothing could be told of this fleet; then there
    are no facts.
    """

    word: str
    page: str
    meaning: str
    text: str
    facts: tuple[Fact, ...] = ()
    lately: tuple[Event, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTold:
    page: str
    title: str
    codes: tuple[str, ...]


def advise(word: str, open_fleet: Callable[[], Fleet]) -> Runbook:
    """A runbook needs neither fleet nor state: it says what to do when there is none.

    Raises ProblemError `not_found`.
    """
    page = runbook_of(word) or (CAPACITY if word in WORDS else "")
    if not page:
        known = (*RUNBOOKS, *RUNBOOKS.values(), *WORDS)
        hint = f"{_question(word, known)}list all: gpuaas runbook"
        raise refuse("not_found", f"{word!r} is no problem code, symptom or runbook", hint)
    codes = _codes(word, page)
    facts: tuple[Fact, ...] = ()
    lately: tuple[Event, ...] = ()
    unknown = ""
    try:
        fleet = open_fleet()
        facts, lately = tuple(_facts(fleet, codes)), _lately(fleet, codes)
    except ProblemError as error:
        unknown = f"{error.problems[0].code}: {error.problems[0].message}"
    return Runbook(
        word=word,
        page=page,
        meaning=_meaning(word),
        text=shipped.runbook(page),
        facts=facts,
        lately=lately,
        unknown=unknown,
    )


def _question(word: str, known: Iterable[str]) -> str:
    close = nearest(word, known)
    return f"did you mean `{close}`? " if close else ""


def pages() -> tuple[PageTold, ...]:
    """Every runbook, with what it is for."""
    names = dict.fromkeys(RUNBOOKS.values())
    return tuple(
        PageTold(
            page=name,
            title=shipped.runbook(name).partition("\n")[0].removeprefix("# "),
            codes=tuple(code for code, page in RUNBOOKS.items() if page == name),
        )
        for name in names
    )


def _meaning(word: str) -> str:
    return CODES.get(word) or SYMPTOMS.get(word) or WORDS.get(word, "")


def _codes(word: str, page: str) -> frozenset[str]:
    """The word itself; of a page, and of a rule of placement, all codes of the page."""
    if word in RUNBOOKS:
        return frozenset((word,))
    return frozenset(code for code, its in RUNBOOKS.items() if its == page)


def _facts(fleet: Fleet, codes: frozenset[str]) -> Iterator[Fact]:
    """Findings of a diagnosis, then what a plan made now would not do."""
    told = set()
    for one in examine(fleet):
        if one.code in codes:
            told.add(one.about)
            yield Fact(
                code=one.code, about=one.about, text=one.text, since=one.since, command=one.command
            )
    for fact in _planned(make_plan(fleet, PlanOptions())):
        if fact.code in codes and fact.about not in told:
            yield fact


def _planned(plan: Plan) -> Iterator[Fact]:
    for change in plan.changes:
        if change.problem is not None:
            one = change.problem
            yield Fact(code=one.code, about=str(change.ref), text=one.message, command=one.hint)
    for problem in plan.problems:
        place = problem.source
        where = f"{place.file}:{place.line}" if place else problem.ref
        yield Fact(code=problem.code, about=where, text=problem.message, command=problem.hint)


def _lately(fleet: Fleet, codes: frozenset[str]) -> tuple[Event, ...]:
    """The last events that were written for one of the codes."""
    with fleet.reading() as database:
        found = queries.newest_events(database, EVENTS_LOOKED_THROUGH)
    told = [e for e in found if codes & {e.reason, str((e.after or {}).get("code", ""))}]
    return tuple(told[-EVENTS_TOLD:])
