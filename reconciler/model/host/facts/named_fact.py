"""Named facts: `word name` → text, as a host tells what is no path; `word *` says all are told."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "unknown"
"""How every answer begins that is none."""

PRESENT = "present"
"""What is told of a device that is there."""

GPU, RUNS = "gpu", "runs"
"""Words of a card, by its UUID, and of all that runs as somebody, by login."""


def fact_key(word: str, name: str) -> str:
    return f"{word} {name}"


def word_of(key: str) -> str:
    return key.partition(" ")[0]


def name_of(key: str) -> str:
    return key.partition(" ")[2]


def is_unknown(fact: str | None) -> bool:
    return fact is not None and fact.startswith(UNKNOWN)


def is_told_in_full(named: Mapping[str, str], word: str) -> bool:
    """Whether what is not named of this word is not there."""
    return fact_key(word, "*") in named
