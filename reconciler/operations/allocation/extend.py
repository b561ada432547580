"""`extend`: a later end is written into the allocation's file; no host is touched."""

from __future__ import annotations

from datetime import datetime, timedelta

from reconciler.kinds.lease import after, end_of, terms_of
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.operations.references import allocation_of
from reconciler.operations.specs import read_desired
from reconciler.specs.edit.edit import set_values
from reconciler.specs.git import git
from reconciler.store.snapshot import read_world


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """How much more time: `until` a moment, `by` a length from its end, or else the default
    lease.
    """

    until: datetime | None = None
    by: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """What was written and where; `before` is empty where nothing lived with an end.

    `latest` is the latest end that it may have. `commit` is empty unless the file was committed.
    """

    ref: str
    before: str
    until: str
    latest: str
    file: str
    line: int
    commit: str = ""


def extend(fleet: Fleet, named: str, wish: Extension, *, commit: bool) -> Extended:
    """Write the later end.

    Raises ProblemError, and then nothing was written, for a ref that is no allocation in git, that
    has no end to be moved, that may not live so long, or whose file cannot be edited.
    """
    desired, now = read_desired(fleet), fleet.now()
    resource = allocation_of(desired, named)
    with fleet.reading() as database:
        world = read_world(database)
    before, latest = _end(resource, desired, world, now), _latest(resource, desired, world, now)
    until = _wanted(resource, desired, wish, (before, latest, now))
    if until <= now:
        raise refuse(
            "lease_lapsed",
            f"{format_moment(until)} is over: {resource.ref} would have no time at all",
            "state a time to come",
        )
    if until > latest:
        raise refuse(
            "lease_too_long",
            f"{resource.ref} may live until {format_moment(latest)} at most, not until"
            f" {format_moment(until)}",
            f"gpuaas extend {resource.ref} --until {format_moment(latest)}",
        )
    values = {"expiresAt": format_moment(until)}
    if commit:
        git.insist_on_rest(fleet.settings, resource.file)
    place = set_values(fleet.settings, resource.file, resource.document, ("spec",), values)
    message = f"Extend {resource.ref} until {values['expiresAt']}"
    return Extended(
        ref=str(resource.ref),
        before=format_moment(before) if before else "",
        until=values["expiresAt"],
        latest=format_moment(latest),
        file=resource.file,
        line=place.line,
        commit=git.commit(fleet.settings, resource.file, message) if commit else "",
    )


def _end(resource: Resource, desired: Desired, world: World, now: datetime) -> datetime | None:
    """The present end of an allocation; one that does not live yet has none to count from."""
    recorded = world.recorded.get(resource.ref)
    return parse_moment(end_of(resource, recorded, desired, now)) if recorded else None


def _latest(resource: Resource, desired: Desired, world: World, now: datetime) -> datetime:
    claims = (claim for claim in world.claims if claim.ref == resource.ref)
    begun = [moment for claim in claims if (moment := parse_moment(claim.begun))]
    return after(min(begun, default=now), terms_of(resource.ref.project, desired).longest)


def _wanted(
    resource: Resource,
    desired: Desired,
    wish: Extension,
    moments: tuple[datetime | None, datetime, datetime],
) -> datetime:
    """The new end, counted from the old one, or from now if that is over; a default is cut to
    fit.
    """
    before, latest, now = moments
    if wish.until is not None:
        return wish.until
    if before is None and resource.spec.expires_at == "none":
        raise refuse(
            "lease_endless",
            f"{resource.ref} has no end that could be moved",
            "to give it one, name it: --until TIME",
        )
    start = max(before or now, now)
    if wish.by is not None:
        return start + wish.by
    return min(after(start, terms_of(resource.ref.project, desired).default), latest)
