"""Attached facts: what a host tells of the volumes that allocations have, as named facts."""

from __future__ import annotations

import re

from reconciler.model.records import dataclass

WORD = "attached"
PREFIX = f"{WORD} "
"""With it the names of these facts begin."""

_LEFT = re.compile(
    r"(wrong: )?(?P<volume>[a-z2-7]{10}) (?P<mode>ro|rw)\b.*?( at (?P<path>/[^\s,]+).*)?"
)
_SOUND = re.compile(r"(?P<volume>[a-z2-7]{10}) (?P<mode>ro|rw) at (?P<path>/\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFact:
    """`path` is where the allocation sees the volume; empty where it does not."""

    volume: str
    mode: str
    path: str

    @property
    def text(self) -> str:
        """What a host shows of a volume that is had as it should be."""
        return f"{self.volume} {self.mode} at {self.path}"


def attached_key(allocation_id: str, storage: str = "") -> str:
    """The name of the fact that tells how an allocation has a storage.

    Without a storage: how these names of the allocation begin.
    """
    return f"{PREFIX}{allocation_id}/{storage}"


def had_by_key(key: str) -> tuple[str, str] | None:
    """The allocation's id and the storage's name of such a fact; None of any other."""
    word, _, place = key.partition(" ")
    id, _, storage = place.partition("/")
    return (id, storage) if word == WORD else None


def read_attached(text: str) -> AttachedFact | None:
    """Reads the fact of a volume that is attached in any way, or left half detached."""
    return _read(_LEFT.fullmatch(text))


def read_sound(text: str) -> AttachedFact | None:
    """Reads the fact of a volume that is attached as it should be; None for any other."""
    return _read(_SOUND.fullmatch(text))


def _read(told: re.Match[str] | None) -> AttachedFact | None:
    if told is None:
        return None
    return AttachedFact(volume=told["volume"], mode=told["mode"], path=told["path"] or "")
