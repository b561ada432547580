"""Suggestions: the valid word that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, legal: Iterable[str]) -> str:
    """The closest of `legal`, whatever the case, dashes and underscores; empty if none is close."""
    plain: dict[str, str] = {}
    for candidate in sorted(legal):
        plain.setdefault(_plain(candidate), candidate)
    found = get_close_matches(_plain(word), plain, n=1, cutoff=0.6)
    return plain[found[0]] if found else ""


def did_you_mean(word: str, legal: Iterable[str], *, limit: int = 12) -> str:
    """A hint: the nearest word, else the legal ones if they are few."""
    legal = sorted(legal)
    if close := nearest(word, legal):
        return f"did you mean `{close}`?"
    shown = ", ".join(legal[:limit])
    return f"known: {shown}{', …' if len(legal) > limit else ''}" if legal else ""


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
