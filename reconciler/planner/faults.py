"""Faults of cards: which of the errors that a host tells of take a card out of use.

Errors that a program makes end that program and say nothing of the card. All others count until a
later look no longer shows them: the driver forgets its counts, and the kernel its log, with a boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reconciler.model.evidence import NodeFacts

OF_PROGRAMS = frozenset({"13", "31", "43", "45", "63", "68", "109"})
"""Xids of what runs on a card. 63 is a row put away; that it needs a reset is told as pending."""

XIDS: Mapping[str, str] = MappingProxyType(
    {
        "48": "uncorrectable memory error",
        "64": "memory row not remapped",
        "74": "NVLink error",
        "79": "fell off the bus",
        "94": "contained memory error",
        "95": "uncontained memory error",
        "119": "its processor does not answer",
        "120": "its processor has failed",
    }
)
"""What is usually said of them; any other is a fault as well."""

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "uncorrected": "uncorrectable memory errors",
        "pages pending": "memory pages to be retired at the next boot",
        "rows pending": "memory rows to be remapped at the next reset",
        "rows failed": "memory rows that could not be remapped",
    }
)
REMEDY = "reset it or restart its host, or disable the slot; then gpuaas plan --refresh"


def faults_of(facts: NodeFacts | None, addresses: Iterable[str]) -> tuple[str, ...]:
    """What is the matter with the card at one of these addresses, in words; () = nothing told."""
    told = (facts.card_errors if facts else None) or {}
    errors = {error for address in addresses for error in told.get(address, ())}
    return tuple(text for error in sorted(errors) if (text := fault(error)))


def fault(error: str) -> str:
    """An error in words; '' where the card is none the worse for it."""
    word, _, value = error.rpartition(" ")
    if word == "xid":
        name = XIDS.get(value, "")
        return "" if value in OF_PROGRAMS else f"Xid {value}" + (f", {name}" if name else "")
    if error in WORDS:
        return WORDS[error]
    if word not in WORDS:
        return error
    return f"{WORDS[word]}: unknown" if value == "unknown" else f"{value} {WORDS[word]}"
