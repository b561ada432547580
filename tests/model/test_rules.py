"""Ordered tables: the first row that applies decides, and none after it is asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.model.rules import Objection, first_objection, first_refusal, holding


def _says(word: str, asked: list[str], *, refuses: bool) -> Callable[[str, int], str]:
    def rule(who: str, number: int) -> str:
        asked.append(word)
        return f"{who} {number}: {word}" if refuses else ""

    return rule


@pytest.mark.parametrize(("refusing", "first"), [((), ""), (("b", "c"), "b"), (("a",), "a")])
def test_the_first_refusal_wins(refusing: tuple[str, ...], first: str) -> None:
    asked: list[str] = []
    rules = {word: _says(word, asked, refuses=word in refusing) for word in ("a", "b", "c")}
    why = f"gpu01 2: {first}" if first else None
    assert first_objection(rules, "gpu01", 2) == (Objection(first, why) if why else None)
    assert first_refusal(rules.values(), "gpu01", 2) == why
    upto = "abc"[: "abc".index(first) + 1] if first else "abc"
    assert "".join(asked) == upto * 2


def test_rows_that_hold_are_told_in_order() -> None:
    rows = (("small", lambda n: n < 10), ("even", lambda n: n % 2 == 0), ("any", lambda n: True))
    assert list(holding(rows, 4)) == ["small", "even", "any"]
    assert next(holding(rows, 11)) == "any"
    assert next(holding(rows[:2], 11), "none") == "none"
