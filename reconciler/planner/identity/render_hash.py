"""The render hash: what the files of an allocation or a host are made from, as one digest.

It has two digests: of what specs and the place give, and of what comes with the program itself. So
a new version of the program is told apart from all that people have changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.canonical import digest

OF_THE_PROGRAM = frozenset({"templates", "walls"})
"""The words of a kind's basis that no spec has a part in."""

BETWEEN = "+"


def basis_of(made_from: Mapping[str, object]) -> str:
    """The basis; `made_from` is what a kind's `basis` says."""
    given = {word: value for word, value in made_from.items() if word not in OF_THE_PROGRAM}
    own = {word: value for word, value in made_from.items() if word in OF_THE_PROGRAM}
    return f"{digest(given)}{BETWEEN}{digest(own)}"


def is_basis(recorded: str, basis: str, made_from: Mapping[str, object]) -> bool:
    """Whether it is what was recorded; earlier versions recorded one digest over all of it."""
    return recorded == basis or (BETWEEN not in recorded and recorded == digest(made_from))


def is_rerendered(recorded: str, basis: str) -> bool:
    """Whether nothing but the program makes these files otherwise."""
    given, _, own = basis.partition(BETWEEN)
    before, _, own_before = recorded.partition(BETWEEN)
    return bool(own_before) and given == before and own != own_before
