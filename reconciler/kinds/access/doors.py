"""Doors: every reason to let a person in to an allocation, and what prevents it."""

from __future__ import annotations

from datetime import datetime

from reconciler.kinds.access.keys import KeyEntry, entries, lines_of
from reconciler.kinds.access.leave import OPEN_ENDED, DoorState, roll_of, state_of
from reconciler.kinds.allocation.spec import AllocationSpec
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource


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


def doors(
    allocation: Resource[AllocationSpec], desired: Desired, now: datetime
) -> tuple[Door, ...]:
    """Every reason why somebody may log in, those that let nobody in among them; by user."""
    found = (_door(entry, desired, now) for entry in entries(allocation, desired))
    return tuple(sorted(found, key=lambda door: (door.user, door.cause)))


def _door(entry: KeyEntry, desired: Desired, now: datetime) -> Door:
    leave = entry.leave
    state = state_of(leave, roll_of(desired), now)
    keys: tuple[str, ...] = ()
    if state is DoorState.ACTIVE:
        lines = lines_of(entry, desired, now)
        keys = tuple(f"{line.key_id} {line.fingerprint}" for line in lines)
        state = DoorState.ACTIVE if keys else DoorState.NO_KEY
    return Door(
        user=leave.user,
        cause=leave.cause,
        state=state,
        keys=keys,
        privilege=leave.privilege,
        until="" if leave.expires_at == OPEN_ENDED else leave.expires_at,
        reason=entry.reason,
    )
