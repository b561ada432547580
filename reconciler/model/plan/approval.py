"""Consent: the approval of one held change, exactly as it was then."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from reconciler.model.canonical import digest
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref

APPROVABLE = frozenset(
    {
        "held_for_approval",
        "held_by_policy",
        "removals_guard",
        "project_guard",
        "folder_guard",
        "revocations_guard",
    }
)
"""Codes of what a consent lets go. Nobody's lets go what is protected, or in error."""

GROUPS, LETTERS = 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """`fingerprint` is that of the change; it is good until `expires_at`, and for one time."""

    id: str
    ref: Ref
    action: str
    fingerprint: str
    actor: str
    reason: str
    at: str
    expires_at: str
    used_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What was let go of of late, though nobody said so of just that: `thing` is its own id."""

    ref: Ref
    thing: str
    at: str


def short_id(fingerprint: str) -> str:
    """What people write for a fingerprint: sixty bits of it, as in `mz3k-q2ab-7xod`."""
    raw = hashlib.sha256(fingerprint.encode()).digest()
    text = base64.b32encode(raw).decode("ascii").lower()
    return "-".join(text[at * LETTERS : (at + 1) * LETTERS] for at in range(GROUPS))


def fingerprint_of_all(fingerprints: Iterable[str]) -> str:
    """The fingerprint of a set of changes: it stands for exactly these, in whatever order."""
    return digest(sorted(set(fingerprints)))
