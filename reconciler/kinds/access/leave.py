"""Leave: whether a reason lets a person in; keys, doors and lists follow this one decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from reconciler.kinds.checks.once import once
from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.rules import holding
from reconciler.model.spec.desired import Desired

OPEN_ENDED = "none"
"""What stands in `expiresAt` for *never ends by itself*."""

LOGIN = "login"
"""The one privilege that is given."""


class DoorState(StrEnum):
    """Whether a reason to be let in does let in, or the first thing that keeps it from that."""

    EXPIRED = "expired"
    UNKNOWN_USER = "unknown_user"
    SUSPENDED = "suspended"
    NOT_A_MEMBER = "not_a_member"
    NOT_SUPPORTED = "not_supported"
    NO_KEY = "no_key"
    ACTIVE = "active"


class Leave(NamedTuple):
    """One reason: a place in `access` of the allocation that is its cause, or a grant."""

    user: str
    cause: Ref
    privilege: str = LOGIN
    expires_at: str = OPEN_ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """Who there is: people and whether their document has them active, and members by project.

    `suspended` are the people and projects whom an operator's word shuts out just now.
    """

    people: Mapping[str, bool]
    members: Mapping[str, frozenset[str]]
    suspended: frozenset[str]


@once
def roll_of(desired: Desired) -> Roll:
    """The roll of all documents."""
    resources = desired.resources.values()
    return Roll(
        people={u.ref.name: u.spec.state == "active" for u in resources if u.ref.kind == "user"},
        members={
            project.ref.name: frozenset(member.user for member in project.spec.members)
            for project in resources
            if project.ref.kind == "project"
        },
        suspended=desired.suspended,
    )


def state_of(leave: Leave, roll: Roll, now: datetime) -> DoorState:
    """The first thing that keeps them out, apart from keys."""
    return next(holding(RULES, leave, roll, now), DoorState.ACTIVE)


def _is_shut_out(leave: Leave, roll: Roll) -> bool:
    """Whether the person's own document, or a suspension of them or the project, shuts them out."""
    scopes = {f"user/{leave.user}", f"project/{leave.cause.project}"}
    return not roll.people[leave.user] or bool(scopes & roll.suspended)


RULES: tuple[tuple[DoorState, Callable[[Leave, Roll, datetime], bool]], ...] = (
    (DoorState.EXPIRED, lambda leave, roll, now: not lasts(leave.expires_at, now)),
    (DoorState.UNKNOWN_USER, lambda leave, roll, now: leave.user not in roll.people),
    (DoorState.SUSPENDED, lambda leave, roll, now: _is_shut_out(leave, roll)),
    (
        DoorState.NOT_A_MEMBER,
        lambda leave, roll, now: leave.user not in roll.members.get(leave.cause.project, ()),
    ),
    (DoorState.NOT_SUPPORTED, lambda leave, roll, now: leave.privilege != LOGIN),
)
"""The first row that holds is told."""


def lasts(end: str, now: datetime) -> bool:
    """Whether that time is still to come; one that cannot be read is over."""
    if end == OPEN_ENDED:
        return True
    moment = parse_moment(end)
    return moment is not None and now < moment
