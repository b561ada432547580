"""User: a person, their names in git and on the control machine, and their public keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from operator import itemgetter
from typing import Any

from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.kinds.checks.findings import Path, finding, same_moment, unreal_times, unsound_texts
from reconciler.kinds.checks.once import once
from reconciler.kinds.plain import NO_HOST_EFFECTS, everything_is_supported
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.formats import why_no_email
from reconciler.model.problem import Problem, Severity
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "User"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.displayName": "none",
    "spec.emails": "none",
    "spec.osLogins": "none",
    "spec.state": "live",
    "spec.keys": "live",
}


class UserState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    id: str
    public_key: str
    expires_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpec:
    emails: tuple[str, ...]
    display_name: str = ""
    os_logins: tuple[str, ...] = ()
    state: UserState = UserState.ACTIVE
    keys: tuple[Key, ...] = ()

    @property
    def is_active(self) -> bool:
        return self.state is UserState.ACTIVE


def parse(spec: Mapping[str, Any], name: str) -> UserSpec:
    stated = {
        **spec,
        "displayName": spec.get("displayName") or name,
        "emails": sorted(spec["emails"]),
        "osLogins": sorted(spec.get("osLogins", ())),
        "keys": [_key(key) for key in sorted(spec.get("keys", ()), key=itemgetter("id"))],
    }
    return decode(UserSpec, stated)


USERS = TypedSpecs(kind="user", parse=parse)


def _key(key: Mapping[str, Any]) -> dict[str, object]:
    times = {"expiresAt": same_moment(key["expiresAt"])} if "expiresAt" in key else {}
    return {**key, **times, "publicKey": key["publicKey"].strip(" ")}


def refs(resource: Resource[UserSpec]) -> tuple[Reference, ...]:
    return ()


def check(resource: Resource[UserSpec], desired: Desired) -> Iterator[Problem]:
    """Own keys are sound, and nothing that tells people apart belongs to two of them.

    An error would keep a suspension from working (rule 9), and who is suspended opens nothing:
    what is wrong with them is a warning until they are active again.
    """
    suspended = resource.spec.state is UserState.SUSPENDED
    for problem in _errors(resource, desired):
        yield replace(problem, severity=Severity.WARNING) if suspended else problem


def _errors(resource: Resource[UserSpec], desired: Desired) -> Iterator[Problem]:
    spec: UserSpec = resource.spec
    yield from _check_keys(resource, desired)
    emails = [(("spec", "emails", email), email) for email in spec.emails]
    yield from unsound_texts(resource, emails, why_no_email)
    for email in spec.emails:
        yield from _check_taken(resource, "email_taken", email, ("emails", email), desired)
    for login in spec.os_logins:
        yield from _check_taken(resource, "os_login_taken", login, ("osLogins", login), desired)
    times = ((("spec", "keys", key.id, "expiresAt"), key.expires_at) for key in spec.keys)
    yield from unreal_times(resource, times)


unsupported = everything_is_supported
needs, basis, steps, expected = NO_HOST_EFFECTS


def _check_keys(resource: Resource[UserSpec], desired: Desired) -> Iterator[Problem]:
    """A reason never repeats the key: what was pasted here may be a private one."""
    spec: UserSpec = resource.spec
    for key in spec.keys:
        parsed = parse_public_key(key.public_key)
        path = ("spec", "keys", key.id, "publicKey")
        if isinstance(parsed, Problem):
            yield finding(
                resource, path, parsed.code, f"key {key.id}: {parsed.message}", parsed.hint
            )
        elif holders := [
            who for who in _owners(desired)["key", parsed.blob] if who != (resource.ref, key.id)
        ]:
            named = ", ".join(f"{ref.name}/{other}" for ref, other in holders)
            message = f"key {key.id} is the same as {named}"
            yield finding(
                resource, path, "key_shared", message, "a key belongs to one person, once"
            )


def _check_taken(
    resource: Resource[UserSpec], code: str, value: str, place: Path, desired: Desired
) -> Iterator[Problem]:
    others = sorted(
        {ref.name for ref, _ in _owners(desired)[code, value.lower()]} - {resource.ref.name}
    )
    if others:
        message = f"{value} belongs to {', '.join(others)} as well"
        yield finding(resource, ("spec", *place), code, message, "leave it with one of them")


@once
def _owners(desired: Desired) -> Mapping[tuple[str, str], list[tuple[Ref, str]]]:
    """Who holds a key, an e-mail address or an OS login, with what they call it."""
    owners: dict[tuple[str, str], list[tuple[Ref, str]]] = {}
    for user in USERS.of(desired):
        spec: UserSpec = user.spec
        held = [("email_taken", email.lower(), email) for email in spec.emails]
        held += [("os_login_taken", login, login) for login in spec.os_logins]
        for key in spec.keys:
            parsed = parse_public_key(key.public_key)
            if isinstance(parsed, SshKey):
                held.append(("key", parsed.blob, key.id))
        for sort, value, called in held:
            owners.setdefault((sort, value), []).append((user.ref, called))
    return owners
