"""Expiry: whose lease is over, what is quarantined, and what follows at this moment.

A release first shuts an allocation off and leaves all it has as it is (rule 12): for so many
minutes git can have it back. After that, and where its time is over, nobody is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from reconciler.kinds.access.leave import OPEN_ENDED
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.lease import after, end_of, terms_of
from reconciler.kinds.policy import LeaseRules, PolicySpec
from reconciler.model.host.capacity import Claim
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Cause, End, EndState
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.difference import BROKEN, LEAVING, Difference
from reconciler.planner.core.policy import policy_of
from reconciler.planner.core.refusal import Refusal, problem_of


def with_ends(
    differences: Iterable[Difference], desired: Desired, world: World, now: datetime
) -> tuple[Difference, ...]:
    """The differences, adjusted to what is over at this moment, in order of their refs."""
    found = {difference.ref: difference for difference in differences}
    renamed = {difference.former for difference in found.values()}
    policy = policy_of(desired, world)
    moment = Moment(desired=desired, now=now, policy=policy, claims=world.claims)
    for ref, recorded in world.recorded.items():
        if not recorded.id or ref in renamed:
            continue
        if ref in desired.frozen and not moment.ends_in_error(found.get(ref), recorded):
            continue
        one = found.pop(ref, None)
        if recorded.phase is Phase.QUARANTINED or moment.is_over(recorded):
            one = _ending(recorded, one, moment)
        if one is not None:
            found[ref] = _release_of(one, recorded, moment)
    return tuple(sorted(found.values(), key=lambda difference: difference.ref))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is needed to judge ends."""

    desired: Desired
    now: datetime
    policy: PolicySpec
    claims: Sequence[Claim] = ()

    def is_over(self, recorded: Recorded) -> bool:
        """Whether its time and its grace are over, by what was recorded and by what git says now.

        An edit alone ends nothing: its end has been applied before, or nobody has consented to it.
        Nor does one give more time than there may be: an end that is refused is not stated.
        """
        if not recorded.expires_at or recorded.expires_at > format_moment(self.now):
            return False
        resource = self.desired.resources.get(recorded.ref)
        wanted = recorded.expires_at
        if resource is not None:
            wanted = end_of(resource, recorded, self.desired, self.now)
        return self._has_passed(recorded, wanted)

    def ends_in_error(self, found: Difference | None, recorded: Recorded) -> bool:
        """Whether its lease is over while its document has errors: the recorded end holds.

        Otherwise an error in a document would keep the slots as well. Where whole documents are in
        error, perhaps by somebody else, the earliest end that they state holds. A document that
        cannot be seen at all is different: it may state a later end.
        """
        problem = found.problem if found is not None and found.action is Action.FROZEN else None
        if problem is None or problem.code != BROKEN or not self.is_over(recorded):
            return False
        if any(one.code == "spec_root_empty" for one in self.desired.problems):
            return False
        readings = self.desired.readings.get(recorded.ref, ())
        if not readings or not all(one.whole for one in readings):
            return True
        ends = [str(one.spec.get("expiresAt") or recorded.expires_at) for one in readings]
        # Whether it may have no end is not asked of a document in error.
        last = format_moment(self._last(recorded))
        return self._has_passed(recorded, min(last if end == OPEN_ENDED else end for end in ends))

    def _has_passed(self, recorded: Recorded, wanted: str) -> bool:
        """Whether an end has passed; `wanted` is empty for no end."""
        if not wanted:
            return False
        later = parse_moment(max(recorded.expires_at, wanted))
        end = later if later is not None and later <= self._last(recorded) else None
        end = end or parse_moment(recorded.expires_at)
        return end is not None and end + self.grace <= self.now

    def _last(self, recorded: Recorded) -> datetime:
        """The latest end that is allowed, counted from when the allocation began."""
        since = (parse_moment(c.begun) for c in self.claims if c.ref == recorded.ref)
        begun = min((moment for moment in since if moment), default=self.now)
        return after(begun, terms_of(recorded.ref.project, self.desired).longest)

    @property
    def grace(self) -> timedelta:
        return timedelta(hours=self.policy.lease.grace_hours)


def _ending(recorded: Recorded, found: Difference | None, moment: Moment) -> Difference | None:
    """What happens to one that is quarantined or whose lease is over; None if nothing does now."""
    resource = moment.desired.resources.get(recorded.ref)
    over = resource is not None and moment.is_over(recorded)
    if moment.ends_in_error(found, recorded):
        return _release(recorded, Cause.EXPIRED)
    if found is not None and (found.action is Action.FROZEN or found.finishing):
        return found
    if recorded.phase is not Phase.QUARANTINED:
        ends = over and recorded.phase in (Phase.ACTIVE, Phase.RELEASING)
        return _release(recorded, Cause.EXPIRED) if ends else found
    if resource is not None and not over:
        moves = found is None or found.action is Action.REPLACE
        return replace(found, action=Action.RESTORE) if found and not moves else found
    if not can_return(recorded, moment.now) or not recorded.basis:
        return _release(recorded, Cause.EXPIRED if over else Cause.CONSENTED)
    if resource is None or resource.digest == recorded.digest:
        return None
    message = f"{state_of(recorded)}, and its time is over"
    hint = "give it more time first: state a later expiresAt"
    problem = problem_of(resource, Refusal("allocation_leaving", message, hint))
    return Difference(
        ref=recorded.ref,
        action=Action.CHANGE,
        resource=resource,
        recorded=recorded,
        problem=problem,
    )


def _release(recorded: Recorded, cause: Cause) -> Difference:
    return Difference(ref=recorded.ref, action=Action.RELEASE, recorded=recorded, cause=cause)


def _release_of(found: Difference, recorded: Recorded, moment: Moment) -> Difference:
    """A release with how far it goes at this moment; any other difference unchanged."""
    if found.action is not Action.RELEASE:
        return found
    begun = Cause.CONSENTED if recorded.phase in LEAVING else None
    minutes = _undo_minutes(recorded, moment)
    return replace(found, cause=found.cause or begun, undo_minutes=minutes)


def _undo_minutes(recorded: Recorded, moment: Moment) -> int:
    minutes = moment.policy.release.undo_minutes
    if recorded.phase is Phase.QUARANTINED:
        # It was begun, and nobody has seen the end of that: once more, in what is left of its time.
        return max(1, minutes) if can_return(recorded, moment.now) else 0
    return minutes if recorded.phase is Phase.ACTIVE else 0


def can_return(recorded: Recorded, now: datetime) -> bool:
    """Whether git can still take it back. An unreadable time is not over."""
    until = parse_moment(recorded.undo_until)
    return until is None or now < until


def state_of(recorded: Recorded) -> str:
    """The state of an allocation that leaves, for those that want to join it."""
    if recorded.phase is Phase.QUARANTINED:
        return f"{recorded.ref} is quarantined until {recorded.undo_until}"
    return f"{recorded.ref} is {recorded.phase}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What ends soon, and the next moment at which anything does."""

    ends: tuple[End, ...] = ()
    moments: tuple[datetime, ...] = ()


def horizon(world: World, rules: LeaseRules, now: datetime) -> Horizon:
    """The horizon of what is recorded. An end is shown from its first warning on."""
    warnings = [timedelta(hours=hours) for hours in (*rules.warn_hours, 0)]
    grace, first = timedelta(hours=rules.grace_hours), max(warnings)
    far = format_moment(now + first)
    ends: list[End] = []
    moments: list[datetime] = []
    beyond = ""
    for recorded in world.recorded.values():
        if recorded.phase is Phase.QUARANTINED:
            until = parse_moment(recorded.undo_until)
            ends.append(_end(recorded, EndState.QUARANTINED, recorded.undo_until))
            moments += [until] if until else []
        elif recorded.expires_at and recorded.phase is Phase.ACTIVE:
            if recorded.expires_at > far:
                beyond = min(beyond or recorded.expires_at, recorded.expires_at)
                continue
            end = parse_moment(recorded.expires_at)
            if end is None:
                continue
            state = EndState.EXPIRES if now < end else EndState.GRACE
            at = recorded.expires_at if now < end else format_moment(end + grace)
            ends.append(_end(recorded, state, at))
            moments += [*(end - before for before in warnings), end + grace]
    later = parse_moment(beyond) if beyond else None
    moments += [later - first] if later else []
    ends.sort(key=lambda one: (one.at, one.ref))
    return Horizon(ends=tuple(ends), moments=tuple(moment for moment in moments if moment > now))


def _end(recorded: Recorded, state: EndState, at: str) -> End:
    owner = ALLOCATIONS.applied(recorded).owner
    return End(ref=recorded.ref, state=state, at=at, owner=owner)


def returning(differences: Iterable[Difference]) -> frozenset[Ref]:
    """What git takes back by this plan, so that others may join it again."""
    return frozenset(d.ref for d in differences if d.action is Action.RESTORE)


def leaving(differences: Iterable[Difference], world: World) -> Mapping[Ref, str]:
    """Every allocation that is leaving, and its state."""
    coming = returning(differences)
    return dict(_leaving(differences, world, coming))


def _leaving(
    differences: Iterable[Difference], world: World, coming: frozenset[Ref]
) -> Iterator[tuple[Ref, str]]:
    for ref, recorded in world.recorded.items():
        if recorded.phase in LEAVING and ref not in coming:
            yield ref, state_of(recorded)
    for one in differences:
        if one.action is Action.RELEASE and one.recorded and one.recorded.phase is Phase.ACTIVE:
            yield one.ref, f"{one.ref} is released by this plan"
