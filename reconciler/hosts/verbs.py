"""Verbs: the closed list of what a host may be asked for. None of them takes a command.

What each verb is given, shows and refuses stands in a file of its name in `contracts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from reconciler.model.plan.verb import Verb
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass

CONTRACTS = Path(__file__).parent / "contracts"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbContract:
    """`item` maps each key, all required, to its meaning; an empty one is no work but a question.

    `evidence` and `refuses` are for the reader of the reference.
    """

    name: Verb
    summary: str
    item: Mapping[str, str]
    evidence: str
    refuses: tuple[str, ...]


class _Contracts(Mapping[str, VerbContract]):
    """Each is read when it is asked for: most commands ask for none."""

    def __getitem__(self, verb: str) -> VerbContract:
        try:
            return _contract(Verb(verb))
        except ValueError:
            raise KeyError(verb) from None

    def __iter__(self) -> Iterator[str]:
        return iter(Verb)

    def __len__(self) -> int:
        return len(Verb)


@cache
def _contract(verb: Verb) -> VerbContract:
    stated = json.loads((CONTRACTS / f"{verb}.json").read_text(encoding="utf-8"))
    return VerbContract(
        name=verb,
        summary=stated["summary"],
        item=stated["item"],
        evidence=stated["evidence"],
        refuses=tuple(stated["refuses"]),
    )


VERBS: Mapping[str, VerbContract] = _Contracts()


def check_item(verb: str, item: Mapping[str, object]) -> Problem | None:
    """Why a host would refuse this work, as far as its keys show; hosts judge again, and deeper."""
    known = VERBS.get(verb)
    if known is None or not known.item:
        return Problem(code="verb_unknown", message=f"{verb!r} is no work for a host")
    odd = sorted(set(item) ^ set(known.item))
    if not odd:
        return None
    what = "unknown" if odd[0] in item else "missing"
    return Problem(code="item_invalid", message=f"{verb}: {what} key {odd[0]!r}")
