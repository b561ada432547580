"""Rules: ordered tables of which the first row that applies decides.

A decision that has several reasons is a literal table, so that its order can be read and every
reason has a test. What comes first in a table hides what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar, TypeVarTuple

Answer = TypeVar("Answer")
Case = TypeVarTuple("Case")


class Objection(NamedTuple):
    """The name of the rule that refuses, which is its code, and why it does."""

    code: str
    why: str


def first_objection(rules: Mapping[str, Callable[[*Case], str]], *case: *Case) -> Objection | None:
    """The first of the named rules that objects to a case; None if none does."""
    for code, rule in rules.items():
        if why := rule(*case):
            return Objection(code, why)
    return None


def first_refusal(rules: Iterable[Callable[[*Case], Answer | None]], *case: *Case) -> Answer | None:
    """What the first rule that refuses a case says of it; None if none does."""
    for rule in rules:
        if refusal := rule(*case):
            return refusal
    return None


def holding(
    rows: Iterable[tuple[Answer, Callable[[*Case], bool]]], *case: *Case
) -> Iterator[Answer]:
    """The words of the rows that hold of a case, in order."""
    return (answer for answer, holds in rows if holds(*case))
