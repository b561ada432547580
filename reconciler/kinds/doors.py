"""Doors: every reason for somebody to be let in to an allocation, and what keeps it from that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum

from reconciler.kinds.access import (
    OPEN_ENDED,
    Entry,
    granted,
    grants_by_allocation,
    in_force,
    lines_of,
    members_by_project,
)
from reconciler.model.desired import Desired
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.resource import Resource


class DoorState(StrEnum):
    """Whether a reason to be let in does let in, or the first thing that keeps it from that."""

    EXPIRED = "expired"
    UNKNOWN_USER = "unknown_user"
    SUSPENDED = "suspended"
    NOT_A_MEMBER = "not_a_member"
    NOT_SUPPORTED = "not_supported"
    NO_KEY = "no_key"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One reason for one person to be let in: a place in `access`, or a grant.

    `keys` are `id fingerprint` of each key that opens it now; `until` is empty for an open end.
    """

    user: str
    cause: Ref
    state: DoorState
    keys: tuple[str, ...] = ()
    privilege: str = "login"
    until: str = ""
    reason: str = ""


MAY = frozenset({DoorState.ACTIVE, DoorState.NO_KEY})
"""Whoever has leave, though he may not have given a key yet that opens anything."""


def doors(allocation: Resource, desired: Desired, now: datetime) -> tuple[Door, ...]:
    """Every reason why somebody may log in, those that let nobody in among them; by user."""
    found = _doors(allocation.ref, allocation.spec.access, desired, now)
    return tuple(sorted(found, key=lambda door: (door.user, door.cause)))


def people(ref: Ref, access: Iterable[str], desired: Desired, now: datetime) -> frozenset[str]:
    """Who may log in to an allocation whose document lets these in."""
    return frozenset(d.user for d in _doors(ref, access, desired, now) if d.state in MAY)


def _doors(ref: Ref, access: Iterable[str], desired: Desired, now: datetime) -> Iterator[Door]:
    for user in access:
        yield _door(Entry(user=user, cause=ref), None, desired, now)
    for grant in grants_by_allocation(desired).get(ref, ()):
        yield _door(granted(grant), grant, desired, now)


def _door(entry: Entry, grant: Resource | None, desired: Desired, now: datetime) -> Door:
    keys = tuple(f"{line.key_id} {line.fingerprint}" for line in lines_of(entry, desired, now))
    user = desired.resources.get(Ref("user", "", entry.user))
    members = members_by_project(desired).get(entry.cause.project, frozenset())
    spec = grant.spec if grant else None
    hindrances = (
        (DoorState.EXPIRED, grant is not None and not in_force(grant, now)),
        (DoorState.UNKNOWN_USER, user is None),
        (DoorState.SUSPENDED, _is_suspended(entry, user, desired)),
        (DoorState.NOT_A_MEMBER, entry.user not in members),
        (DoorState.NOT_SUPPORTED, spec is not None and spec.privilege != "login"),
        (DoorState.NO_KEY, not keys),
    )
    state = next((state for state, holds in hindrances if holds), DoorState.ACTIVE)
    end = spec.expires_at if spec else OPEN_ENDED
    return Door(
        user=entry.user,
        cause=entry.cause,
        state=state,
        keys=keys if state is DoorState.ACTIVE else (),
        privilege=str(spec.privilege) if spec else "login",
        until="" if end == OPEN_ENDED else end,
        reason=spec.reason if spec else "",
    )


def _is_suspended(entry: Entry, user: Resource | None, desired: Desired) -> bool:
    """By the person's own document, or by the word of an operator on him or the project."""
    scopes = {f"user/{entry.user}", f"project/{entry.cause.project}"}
    return bool(scopes & desired.suspended) or (user is not None and user.spec.state != "active")
