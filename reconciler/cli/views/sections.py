"""A plan in the order people need it: what needs them, destroys, interrupts, is safe, the rest.

Shared by the text and the Markdown view, so that both say the same in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reconciler.cli.exit_codes import Exit, of_change
from reconciler.cli.text import Style
from reconciler.model.plan.plan import Action, Cause, Change, Plan, Risk
from reconciler.model.records import dataclass


class ActionWord(NamedTuple):
    """How an action is named: its symbol never stands without its title."""

    symbol: str
    title: str
    counted: str


WORDS: Mapping[Action, ActionWord] = {
    Action.BLOCKED: ActionWord("!", "BLOCKED", "blocked"),
    Action.RELEASE: ActionWord("-", "RELEASE", "to release"),
    Action.REPLACE: ActionWord("-+", "REPLACE", "to replace"),
    Action.RESTART: ActionWord("~", "RESTART", "to restart"),
    Action.RESTORE: ActionWord("~", "RESTORE", "to restore"),
    Action.ADOPT: ActionWord("+", "ADOPT", "to adopt"),
    Action.CREATE: ActionWord("+", "CREATE", "to create"),
    Action.CHANGE: ActionWord("~", "CHANGE", "to change"),
    Action.FORGET: ActionWord("-", "FORGET", "to forget"),
    Action.RENAME: ActionWord(">", "RENAME", "to rename"),
    Action.REPAIR: ActionWord("≠", "DRIFT", "to repair"),
    Action.STAGE: ActionWord("+", "STAGE", "to stage"),
    Action.FROZEN: ActionWord("=", "FROZEN", "frozen"),
}
HELD = ActionWord("!", "HELD", "held")

RISKS: Mapping[Risk, tuple[str, Style]] = {
    Risk.DESTROYS: ("destroys, asks", Style.BAD),
    Risk.INTERRUPTS: ("interrupts, asks", Style.WARN),
    Risk.SAFE: ("safe", Style.GOOD),
}
CONSENTED = frozenset({Cause.EXPIRED, Cause.CONSENTED})
LEVELS = (Risk.SAFE, Risk.INTERRUPTS, Risk.DESTROYS)
_ORDER = (*WORDS, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    word: ActionWord
    note: str
    style: Style
    changes: tuple[Change, ...]


def sections(plan: Plan, at_least: Risk = Risk.SAFE) -> Iterator[Section]:
    """The plan's changes from a risk on; what is blocked or held is always among them."""
    floor = LEVELS.index(at_least)
    groups: dict[tuple[int, int, bool], list[Change]] = {}
    for change in plan.changes:
        rank = _rank(change)
        if rank < 2 or LEVELS.index(change.risk) >= floor:
            key = (rank, _ORDER.index(change.action), change.cause in CONSENTED)
            groups.setdefault(key, []).append(change)
    for (rank, *_), changes in sorted(groups.items(), key=lambda group: group[0]):
        yield _section(rank, tuple(changes))


def _rank(change: Change) -> int:
    """0 blocked · 1 held · 2 destroys · 3 interrupts · 4 safe · 5 drift · 6 frozen."""
    code = of_change(change)
    if code in (Exit.BLOCKED, Exit.HELD):
        return 0 if code is Exit.BLOCKED else 1
    if change.action is Action.FROZEN:
        return 6
    if change.action is Action.REPAIR and change.risk is Risk.SAFE:
        return 5
    return 4 - LEVELS.index(change.risk)


def _section(rank: int, changes: tuple[Change, ...]) -> Section:
    word = {0: WORDS[Action.BLOCKED], 1: HELD}.get(rank, WORDS[changes[0].action])
    note, style = RISKS[changes[0].risk]
    if changes[0].cause in CONSENTED:
        note = f"{changes[0].risk.value}, as was consented to before"
    if rank == 0:
        note, style = f"exit {Exit.BLOCKED}", Style.BAD
    elif rank == 1:
        note, style = f"needs a consent, exit {Exit.HELD}", Style.BAD
    elif rank == 6:
        note, style = "left as it is until its file is sound", Style.WARN
    return Section(word=word, note=note, style=style, changes=changes)


def counts(plan: Plan) -> dict[str, int]:
    """How many changes of each sort, by the word used in a sentence."""
    found: Counter[str] = Counter()
    for change in plan.changes:
        found[_section(_rank(change), (change,)).word.counted] += 1
    blocked, *others = WORDS.values()
    order = [word.counted for word in (blocked, HELD, *others)]
    return {word: found[word] for word in order if found[word]}
