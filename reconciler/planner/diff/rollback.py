"""Rollback: what access it would restore, and what it cannot bring back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from reconciler.model.moment import parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.spec.rollback import Reverted, RollbackNote
from reconciler.model.state.world import World
from reconciler.planner.access.suspensions import in_force

Value = Mapping[str, Any]

ROLES = ("viewer", "member", "maintainer", "owner")
"""From the least to the most that it may do; what is none of them counts as the most."""


def opened(reverted: Reverted, now: datetime) -> tuple[str, ...]:
    """Whom or what the document as it stood lets in, and does not as it stands.

    An allocation or a project that is not there at all is asked for, and says whom it lets in.
    """
    if reverted.then is None:
        return ()
    find = _OPENS.get(reverted.ref.kind)
    before = None if reverted.now is None else _spec(reverted.now)
    return tuple(find(_spec(reverted.then), before, now)) if find else ()


def is_shut_since(reverted: Reverted) -> bool:
    """Whether what it opens was taken away by itself, and not with the removal of a whole thing."""
    return reverted.now is not None or reverted.ref.kind in ("user", "grant")


def _of_user(then: Value, now: Value | None, at: datetime) -> Iterator[str]:
    if then.get("state", "active") != "active":
        return
    if now is None or now.get("state", "active") != "active":
        yield "the person"
    now = now or {}
    kept = {_material(key): key for key in now.get("keys", ())}
    for key in then.get("keys", ()):
        if _opens_longer(key, kept.get(_material(key)), at):
            yield f"key {key.get('id')}"
    for word, name in (("emails", "address"), ("osLogins", "OS login")):
        for one in then.get(word, ()):
            if one not in now.get(word, ()):
                yield f"{name} {one}"


def _material(key: Value) -> tuple[str, ...]:
    """A public key without its comment."""
    return tuple(str(key.get("publicKey", "")).split()[:2])


def _opens_longer(then: Value, now: Value | None, at: datetime) -> bool:
    """Whether it is not over by `at`, and is there no more or ends earlier by now."""
    if _is_over(then, at):
        return False
    if now is None:
        return True
    end, other = _end(then), _end(now)
    return other is not None and (end is None or end > other)


def _of_grant(then: Value, now: Value | None, at: datetime) -> Iterator[str]:
    beside = [{k: v for k, v in one.items() if k not in APART} for one in (then, now or {})]
    if _opens_longer(then, now if beside[0] == beside[1] else None, at):
        until = f" until {then['expiresAt']}" if then.get("expiresAt") else ""
        yield f"{then.get('user')} on {then.get('allocation')}{until}"


APART = frozenset({"expiresAt", "reason"})
"""Fields of a grant that give nothing more to anybody."""


def _of_project(then: Value, now: Value | None, at: datetime) -> Iterator[str]:
    roles = {one.get("user"): _rank(one) for one in (now or {}).get("members", ())}
    for one in then.get("members", ()):
        if roles.get(one.get("user"), -1) < _rank(one):
            yield f"{one.get('user')} as {one.get('role', 'member')}"


def _rank(member: Value) -> int:
    role = member.get("role", "member")
    return ROLES.index(role) if role in ROLES else len(ROLES)


def _of_allocation(then: Value, now: Value | None, at: datetime) -> Iterator[str]:
    let_in = _people(now or {})
    yield from sorted(_people(then) - let_in)


def _people(spec: Value) -> set[str]:
    named = (one.get("user") if isinstance(one, Mapping) else one for one in spec.get("access", ()))
    return {str(one) for one in (*named, spec.get("owner")) if one}


_OPENS = {
    "user": _of_user,
    "grant": _of_grant,
    "project": _of_project,
    "allocation": _of_allocation,
}


def lost(reverted: Iterable[Reverted], world: World, now: datetime) -> Iterator[RollbackNote]:
    """What stays gone, or is different, though the text is that of then."""
    reverted = tuple(reverted)
    back = {one.ref for one in reverted if one.now is None}
    for one in reverted:
        for text in (*_lost(one, world, now), *_renamed(one, back)):
            yield RollbackNote(ref=one.ref, text=text)
        shut = (one.ref.kind, one.ref.name)
        for word in in_force(world.suspensions, now):
            if one.then is not None and word.scope in (str(one.ref), f"{shut[0]}/{shut[1]}"):
                yield RollbackNote(
                    ref=one.ref, text=f"stays suspended by {word.actor}: gpuaas resume"
                )


def _lost(one: Reverted, world: World, now: datetime) -> Iterator[str]:
    find = _LOSES.get(one.ref.kind)
    if one.then is not None and find is not None:
        yield from find(one, _spec(one.then), world, now)


def _renamed(one: Reverted, back: Collection[Ref]) -> Iterator[str]:
    metadata = (one.now or {}).get("metadata", {})
    former = one.ref._replace(name=str(metadata.get("formerName", "")))
    if one.then is None and former in back:
        yield f"it is let go of, and {former.name}, as it was called, is made anew: rename it back"


def _life_of_allocation(one: Reverted, then: Value, world: World, now: datetime) -> Iterator[str]:
    if one.now is None:
        yield from _gone_with(one.ref, world)
    if _is_over(then, now):
        yield f"its end {then['expiresAt']} is over: give it another one: gpuaas extend"


def _gone_with(ref: Ref, world: World) -> Iterator[str]:
    recorded = world.recorded.get(ref)
    if recorded is not None and recorded.phase is Phase.QUARANTINED:
        yield f"it comes back with its data if this is applied before {recorded.undo_until}"
    elif recorded is not None and recorded.phase is Phase.RELEASING:
        yield "its release has begun: home and scratch are lost, and it is made anew afterwards"
    elif recorded is None and world.counters.incarnation(ref):
        yield "home and scratch went with its release: it is made anew, under another login"


def _data_of_storage(one: Reverted, then: Value, world: World, now: datetime) -> Iterator[str]:
    if one.now is not None or one.ref in world.volumes:
        return
    gone = [volume for volume in world.wiped.values() if volume.ref == one.ref]
    if gone:
        yield f"its data was wiped ({max(one.since for one in gone)}): it is made anew, and empty"


def _end_of_grant(one: Reverted, then: Value, world: World, now: datetime) -> Iterator[str]:
    if _is_over(then, now):
        yield f"it is over since {then['expiresAt']}, and opens nothing"


def _keys_of_user(one: Reverted, then: Value, world: World, now: datetime) -> Iterator[str]:
    for key in then.get("keys", ()):
        if _is_over(key, now):
            yield f"key {key.get('id')} is over since {key['expiresAt']}, and opens nothing"


def _prices_of_sku(one: Reverted, then: Value, world: World, now: datetime) -> Iterator[str]:
    if then.get("prices") != _spec(one.now).get("prices"):
        yield "what was charged since stays charged: its prices are those of then from the apply on"


_LOSES = {
    "allocation": _life_of_allocation,
    "storage": _data_of_storage,
    "grant": _end_of_grant,
    "user": _keys_of_user,
    "sku": _prices_of_sku,
}
"""By kind, what stays gone of a document that stands again as it stood."""


def _is_over(value: Value, now: datetime) -> bool:
    end = _end(value)
    return end is not None and end <= now


def _end(value: Value) -> datetime | None:
    return parse_moment(str(value.get("expiresAt", "")))


def _spec(value: Value | None) -> Value:
    found = (value or {}).get("spec")
    return found if isinstance(found, Mapping) else {}
