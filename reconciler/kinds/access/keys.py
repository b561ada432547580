"""Keys: which keys open one allocation at one moment, worked out from current input.

Nothing is remembered here, so a key, a grant, a member or a person that is gone or past its time
opens nothing, whatever was written before. `desired` must hold the last recorded form of
resources that are frozen: a broken file is no reason to shut somebody out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from reconciler.kinds.access.leave import DoorState, Leave, lasts, roll_of, state_of
from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.kinds.allocation.spec import AllocationSpec
from reconciler.kinds.checks.once import once
from reconciler.kinds.grant import GrantSpec
from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource

NO_FORWARDING = ("no-agent-forwarding", "no-port-forwarding", "no-X11-forwarding")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """One line of a key file; `cause` is the allocation or the grant that lets the user in."""

    user: str
    key_id: str
    fingerprint: str
    line: str
    cause: Ref


def key_lines(
    allocation: Resource[AllocationSpec], desired: Desired, now: datetime
) -> tuple[KeyLine, ...]:
    """Every line of the allocation's key file, sorted; equal lines stand once.

    A key that two people share gives a line for each of them, so that it stays as long as one
    of them may log in.
    """
    roll = roll_of(desired)
    lines: dict[str, KeyLine] = {}
    for entry in entries(allocation, desired):
        if state_of(entry.leave, roll, now) is DoorState.ACTIVE:
            for line in lines_of(entry, desired, now):
                lines.setdefault(line.line, line)
    return tuple(sorted(lines.values(), key=lambda one: (one.user, one.key_id, one.line)))


def in_force(grant: Resource[GrantSpec], now: datetime) -> bool:
    """Whether its time is not over; a grant whose end cannot be read is over."""
    return lasts(grant.spec.expires_at, now)


def next_change(desired: Desired, now: datetime) -> datetime | None:
    """The earliest time after `now` at which a grant or a key of somebody ends by itself."""
    ends = [grant.spec.expires_at for grant in desired.resources.values() if _is_grant(grant)]
    for user in desired.resources.values():
        if user.ref.kind == "user":
            ends.extend(key.expires_at for key in user.spec.keys if key.expires_at)
    moments = [moment for end in ends if (moment := parse_moment(end)) and moment > now]
    return min(moments, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """By which leave and with which keys one user may log in; no `keys` = all of theirs.

    `options` None = unsound, so no line.
    """

    leave: Leave
    keys: tuple[str, ...] = ()
    options: str | None = ""
    reason: str = ""


def entries(allocation: Resource[AllocationSpec], desired: Desired) -> Iterator[KeyEntry]:
    """Every reason to let somebody in, those that let nobody in among them."""
    for user in allocation.spec.access:
        yield KeyEntry(leave=Leave(user=user, cause=allocation.ref))
    for grant in _grants(desired).get(allocation.ref, ()):
        spec = grant.spec
        leave = Leave(
            user=spec.user,
            cause=grant.ref,
            privilege=str(spec.privilege),
            expires_at=spec.expires_at,
        )
        options = _options(spec.options)
        yield KeyEntry(leave=leave, keys=spec.keys, options=options, reason=spec.reason)


def lines_of(entry: KeyEntry, desired: Desired, now: datetime) -> Iterator[KeyLine]:
    """A line for each key of the person that this entry takes and whose time is not over."""
    if entry.options is None:
        return
    for key in _keys(desired).get(entry.leave.user, ()):
        if entry.keys and key.id not in entry.keys:
            continue
        if key.end and not lasts(key.end, now):
            continue
        yield KeyLine(
            user=entry.leave.user,
            key_id=key.id,
            fingerprint=key.fingerprint,
            line=f"{entry.options} {key.line}" if entry.options else key.line,
            cause=entry.leave.cause,
        )


def _options(options: Any) -> str | None:
    """sshd's own options for a grant's; None if an address is none: then nobody gets in by it."""
    # ip_network lets a scope through (`fe80::1%anything`), quotes and commas included.
    if any("%" in text for text in options.from_):
        return None
    try:
        networks = [str(ipaddress.ip_network(text, strict=False)) for text in options.from_]
    except ValueError:
        return None
    words = [f'from="{",".join(sorted(networks))}"'] if networks else []
    return ",".join(words if options.forwarding else [*words, *NO_FORWARDING])


def _is_grant(resource: Resource) -> bool:
    return resource.ref.kind == "grant"


class _Key(NamedTuple):
    """A sound key of somebody active; `end` is empty where it has none."""

    id: str
    end: str
    fingerprint: str
    line: str


@once
def _keys(desired: Desired) -> Mapping[str, tuple[_Key, ...]]:
    """Keys by user. Each line is rebuilt: of what somebody wrote, only decoded bytes go on."""
    found: dict[str, list[_Key]] = {}
    for user in desired.resources.values():
        if user.ref.kind != "user" or user.spec.state != "active":
            continue
        if str(user.ref) in desired.suspended:
            continue
        for key in user.spec.keys:
            parsed = parse_public_key(key.public_key)
            if isinstance(parsed, SshKey):
                line = f"{parsed.type} {parsed.blob} {user.ref.name}/{key.id}"
                one = _Key(key.id, key.expires_at or "", parsed.fingerprint, line)
                found.setdefault(user.ref.name, []).append(one)
    return {user: tuple(keys) for user, keys in found.items()}


@once
def _grants(desired: Desired) -> Mapping[Ref, tuple[Resource, ...]]:
    """Grants by their allocation, in the order of their refs."""
    found: dict[Ref, list[Resource]] = {}
    for grant in sorted(filter(_is_grant, desired.resources.values()), key=lambda one: one.ref):
        ref = Ref("allocation", grant.ref.project, grant.spec.allocation)
        found.setdefault(ref, []).append(grant)
    return {ref: tuple(grants) for ref, grants in found.items()}
