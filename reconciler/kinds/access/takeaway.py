"""Takeaway: access that an invalid document takes away; it can never add any.

Whoever is let in by less than both say is let in by neither: a state, a key, a member, an end. What
a reading does not say in a form that can be read is left as it was applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.kinds.access.leave import OPEN_ENDED
from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.spec.reading import Reading, whole
from reconciler.model.state.world import Recorded

Spec = Mapping[str, Any]

ROLES = ("viewer", "member", "maintainer", "owner")
"""From the least to the most."""


def remaining(kind: str, spec: Spec, readings: Sequence[Reading]) -> Spec | None:
    """What all of them leave of the recorded `spec`, which is returned as it is if that is all.

    None: nothing is left.
    """
    left: Spec | None = spec
    for reading in readings:
        if left is not None:
            left = RULES[kind](left, reading)
    return left


def takes_away(kind: str, recorded: Recorded, readings: Sequence[Reading]) -> bool:
    """Whether any of them takes anything from what was recorded."""
    spec = whole(recorded).spec
    return remaining(kind, spec, readings) is not spec


def _user(spec: Spec, reading: Reading) -> Spec:
    said = reading.spec
    state = "suspended" if said.get("state") == "suspended" else spec["state"]
    keys = spec["keys"]
    listed = _entries(said.get("keys", () if reading.whole else None))
    if listed is not None:
        keys = [left for key in keys if (left := _key(key, listed)) is not None]
    return _with(spec, state=state, keys=keys)


def _key(key: Spec, listed: Sequence[Spec]) -> Spec | None:
    """The key as it may stay, if it is listed; one whose text cannot be read may be this one."""
    own = parse_public_key(key["publicKey"])
    unread = False
    for one in listed:
        text = one.get("publicKey")
        parsed = parse_public_key(text.strip(" ")) if isinstance(text, str) else None
        if isinstance(parsed, SshKey) and isinstance(own, SshKey) and parsed.blob == own.blob:
            end = _earlier(key.get("expiresAt"), one.get("expiresAt"))
            return key if end == key.get("expiresAt") else {**key, "expiresAt": end}
        unread = unread or (not isinstance(parsed, SshKey) and one.get("id") == key["id"])
    return key if unread else None


def _project(spec: Spec, reading: Reading) -> Spec:
    listed = _entries(reading.spec.get("members"))
    if listed is None or any(not isinstance(one.get("user"), str) for one in listed):
        return spec
    members = []
    for one in spec["members"]:
        roles = [other.get("role") for other in listed if other["user"] == one["user"]]
        if roles:
            least = min((role for role in ROLES if role in (one["role"], *roles)), key=ROLES.index)
            members.append({**one, "role": least})
    return _with(spec, members=members)


def _allocation(spec: Spec, reading: Reading) -> Spec:
    listed = reading.spec.get("access")
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return spec
    return _with(spec, access=[user for user in spec["access"] if user in listed])


def _grant(spec: Spec, reading: Reading) -> Spec | None:
    """One for somebody or something else is none of this."""
    said = reading.spec
    for field in ("user", "allocation", "privilege"):
        if isinstance(said.get(field), str) and said[field] != spec[field]:
            return None
    keys = _texts(said.get("keys"))
    if keys and spec["keys"]:
        keys = [key for key in spec["keys"] if key in keys]
        if not keys:
            return None
    options = _options(spec["options"], said.get("options"))
    if options is None:
        return None
    end = _earlier(spec["expiresAt"], said.get("expiresAt"))
    return _with(spec, keys=keys or spec["keys"], options=options, expiresAt=end)


def _options(options: Spec, said: object) -> Spec | None:
    """Networks that both name, and forwarding if both give it; None if no network is left."""
    if not isinstance(said, Mapping):
        return options
    networks = _texts(said.get("from"))
    if networks and options["from"]:
        networks = [one for one in options["from"] if one in networks]
        if not networks:
            return None
    forwarding = options["forwarding"] and said.get("forwarding") is not False
    return _with(options, **{"from": networks or options["from"], "forwarding": forwarding})


def _earlier(end: str | None, other: object) -> str | None:
    """The earlier of two ends, of which none, or one that cannot be read, is no end."""
    moment = parse_moment(other) if isinstance(other, str) else None
    if moment is None:
        return end
    told = format_moment(moment)
    return told if end in (None, OPEN_ENDED) else min(str(end), told)


def _entries(value: object) -> Sequence[Spec] | None:
    """A list of mappings; None where it is none, of which nothing can be said."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    return value if all(isinstance(one, Mapping) for one in value) else None


def _texts(value: object) -> list[str]:
    return sorted(_strings(value)) if isinstance(value, Sequence) else []


def _strings(value: Sequence[object]) -> Iterator[str]:
    if not isinstance(value, str):
        yield from (one for one in value if isinstance(one, str))


def _with(spec: Spec, **fields: object) -> Spec:
    """The same spec where no field is another."""
    return (
        spec if all(spec[name] == value for name, value in fields.items()) else {**spec, **fields}
    )


RULES: Mapping[str, Callable[[Spec, Reading], Spec | None]] = {
    "allocation": _allocation,
    "grant": _grant,
    "project": _project,
    "user": _user,
}
