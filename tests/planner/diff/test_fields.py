"""Field by field: keys not positions, and a word for every field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.kinds.registry import KINDS
from reconciler.planner.diff.change_words import ALWAYS_ALLOWED, CONDITIONS
from reconciler.planner.diff.fields import compare_fields, entry_of, word_of

RULES = {
    "labels": "live",
    "spec.keys": "live",
    "spec.slots": "refuse while claimed",
    "spec.slots[].disabled": "live",
    "spec.access[]": "set",
    "spec.runtimes[].bundle": "live",
    "spec.runtimes[].version": "live",
}


def paths(before: Any, after: Any) -> list[str]:
    found = compare_fields({"spec": {"keys": before}}, {"spec": {"keys": after}}, RULES)
    return [change.path for change in found]


def key(name: str, text: str = "ssh") -> Mapping[str, str]:
    return {"id": name, "publicKey": text}


def test_taking_one_entry_out_touches_no_other() -> None:
    """F-PLN-01: from the middle, from the front, and putting one in at the front."""
    three = [key("a"), key("b"), key("c")]
    assert paths(three, [key("a"), key("c")]) == ["spec.keys[b]"]
    assert paths(three, [key("b"), key("c")]) == ["spec.keys[a]"]
    assert paths(three, [key("0"), *three]) == ["spec.keys[0]"]
    assert paths(three, [key("a"), key("b", "new"), key("c")]) == ["spec.keys[b].publicKey"]


def test_an_order_that_means_something_is_a_change() -> None:
    """The first runtime is the default: turning two round is no empty difference."""
    assert paths([key("a"), key("b")], [key("b"), key("a")]) == ["spec.keys"]


def test_entries_without_a_key_are_compared_whole() -> None:
    assert paths([{"x": 1}], [{"x": 2}]) == ["spec.keys"]
    assert paths([key("a"), key("a", "2")], [key("a")]) == ["spec.keys"]


def test_a_list_that_was_not_there_is_empty() -> None:
    assert paths(None, [key("a")]) == ["spec.keys[a]"]
    assert paths([key("a")], None) == ["spec.keys[a]"]


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("labels.team", "live"),
        ("spec.slots[s0].gpu.uuid", "refuse while claimed"),
        ("spec.slots[s0].disabled.reason", "live"),
        ("spec.slots[s0]", "refuse while claimed"),
        ("spec.access", "set"),
        ("spec.runtimes[torch@2.6]", "live"),
        ("spec.nobody.knows", "refuse"),
    ],
)
def test_each_field_has_the_word_of_its_nearest_rule(path: str, word: str) -> None:
    assert word_of(path, RULES) == word


@pytest.mark.parametrize("kind", KINDS)
def test_every_change_word_is_understood(kind: str) -> None:
    """A word that nobody knows would refuse every change of its field."""
    assert set(KINDS[kind].FIELD_RULES.values()) <= ALWAYS_ALLOWED | CONDITIONS.keys()


def test_the_entry_is_read_from_the_path() -> None:
    assert entry_of("spec.slots[s0].gpu.uuid", "spec.slots") == "s0"
    assert entry_of("spec.slots", "spec.slots") == ""
