"""GPU health: which reported errors take a GPU out of use.

Errors that a program makes end that program and say nothing of the card. All others count until a
later look no longer shows them: the driver forgets its counts, and the kernel its log, with a boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reconciler.model.host.evidence import NodeFacts

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
        "154": "recovery:",
    }
)
"""What is usually said of them; any other is a fault as well."""

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "uncorrected": "uncorrectable memory errors",
        "pages pending": "memory pages to be retired at the next boot",
        "rows pending": "memory rows to be remapped at the next reset",
        "rows failed": "memory rows that could not be remapped",
        "fallen off the bus": "fell off the bus",
        "fabric unhealthy": "its fabric is unhealthy",
    }
)
OPENINGS: Mapping[str, str] = MappingProxyType(
    {
        "says": "its driver says: {}",
        "lost": "lost: {}",
        "mig": "MIG is {}, switch it off",
        "fabric": "its fabric is not complete: {}",
        "recovery": "its driver asks for: {}",
    }
)
"""First words of errors that end in a driver's own words."""

MARKS: Mapping[str, str] = MappingProxyType({"inforom corrupted": "infoROM corrupted"})
"""What is told of a card that computes well all the same."""

REMEDY = "reset it or restart its host, or disable the slot; then gpuaas plan --refresh"


def faults_of(facts: NodeFacts | None, addresses: Iterable[str]) -> tuple[str, ...]:
    """What is wrong with the GPU at one of these addresses, in words; () = nothing reported."""
    told = (facts.card_errors if facts else None) or {}
    errors = {error for address in addresses for error in told.get(address, ())}
    return tuple(dict.fromkeys(text for error in sorted(errors) if (text := fault(error))))


def marks_of(facts: NodeFacts | None, address: str) -> tuple[str, ...]:
    """What somebody should look after one day, and that takes no card out of use."""
    told = ((facts.card_errors if facts else None) or {}).get(address, ())
    return tuple(MARKS[error] for error in told if error in MARKS)


def fault(error: str) -> str:
    """An error in words; '' where the GPU is none the worse for it."""
    if error in MARKS:
        return ""
    if error in WORDS:
        return WORDS[error]
    first, _, rest = error.partition(" ")
    if first == "xid":
        return _of_xid(*rest.split(" ", 1))
    if first in OPENINGS and rest:
        return OPENINGS[first].format(_mig(rest) if first == "mig" else rest)
    word, _, value = error.rpartition(" ")
    if word not in WORDS:
        return error
    return f"{WORDS[word]}: unknown" if value == "unknown" else f"{value} {WORDS[word]}"


def _of_xid(number: str = "", more: str = "") -> str:
    """`more` is `nonfatal`, or what a card asks for after a recovery: `None`, `Node Reboot …`."""
    if number in OF_PROGRAMS or more in ("nonfatal", "None"):
        return ""
    words = " ".join(filter(None, (XIDS.get(number, ""), more)))
    return f"Xid {number}" + (f", {words}" if words else "")


def _mig(word: str) -> str:
    return word.lower() if word in ("Enabled", "Disabled") else word


def fabric_faults(facts: NodeFacts | None) -> tuple[str, ...]:
    """What is wrong with the fabric of all GPUs of a host; () = nothing reported."""
    return tuple(_of_fabric(word) for word in (facts.fabric if facts else None) or ())


def _of_fabric(word: str) -> str:
    first, _, rest = word.partition(" ")
    if first == "sxid":
        return f"fatal error of a switch, SXid {rest}"
    return f"fabric manager {rest}" if first == "manager" else word
