"""The policy in force: the fleet's rules, drift they leave alone, and accepted drift.

Who may log in is never accepted as it is: that would be a grant that nobody gave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from reconciler.kinds.fleet_rules import DEFAULTS, POLICY, policy_in
from reconciler.kinds.policy import POLICIES, PolicySpec, Repair
from reconciler.model.host import layout
from reconciler.model.host.facts.named_fact import is_unknown, word_of
from reconciler.model.host.facts.tenant_fact import TenantWord
from reconciler.model.moment import parse_moment
from reconciler.model.plan.drift import Acceptance, DriftClass
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.planner.core.effective_spec import recorded_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Leniency:
    """`accepted` are the acceptances in force, by ref and key; `repairs` the classes put right."""

    accepted: Mapping[tuple[Ref, str], tuple[Acceptance, ...]]
    repairs: frozenset[DriftClass]

    def accepts(self, ref: Ref, key: str, shown: str | None) -> Acceptance | None:
        """Who has accepted that `key` of `ref` shows just this."""
        if is_unknown(shown) or is_door(ref, key):
            return None
        given = self.accepted.get((ref, key), ())
        return next((one for one in given if one.whatever or one.shown == shown), None)

    def leaves(self, ref: Ref, key: str, shown: str | None) -> bool:
        """Whether something that the platform made stays as it shows for now."""
        repaired = class_of_ours(ref, key) in self.repairs
        return not repaired or self.accepts(ref, key, shown) is not None


def is_door(ref: Ref, key: str) -> bool:
    """Whether it decides who may log in to an allocation."""
    return key.startswith(layout.KEY_FILE.before) or (
        ref.kind == "allocation" and word_of(key) == TenantWord.ACCOUNT
    )


def class_of_ours(ref: Ref, key: str) -> DriftClass:
    """Of what the platform made."""
    return DriftClass.ACCESS if is_door(ref, key) else DriftClass.PLATFORM


def leniency_of(desired: Desired, world: World, now: datetime) -> Leniency:
    """The policy as git and the state have it now; without a policy everything is repaired."""
    found: dict[tuple[Ref, str], tuple[Acceptance, ...]] = {}
    for one in in_force(acceptances(desired, world), now):
        place = (one.ref, one.key)
        found[place] = (*found.get(place, ()), one)
    told = policy_in(desired).repair
    words = {DriftClass.PLATFORM: told.platform, DriftClass.ACCESS: told.access}
    repairs = frozenset(kind for kind, word in words.items() if word is Repair.AUTO)
    return Leniency(accepted=found, repairs=repairs)


def acceptances(desired: Desired, world: World) -> Iterator[Acceptance]:
    """Acceptances of the policy, which hold for whatever is shown, and those given by hand."""
    for one in policy_in(desired).accepted_drift:
        ref = parse_ref(one.ref)
        if ref is not None:
            yield Acceptance(
                ref=ref,
                key=one.key,
                owner=one.owner,
                reason=one.reason,
                until=one.until,
                whatever=True,
            )
    yield from world.accepted_drift


def in_force(given: Iterable[Acceptance], now: datetime) -> Iterator[Acceptance]:
    """Without an end that can be read it has ended."""
    for one in given:
        until = parse_moment(one.until)
        if until is not None and until > now:
            yield one


def policy_of(desired: Desired, world: World) -> PolicySpec:
    """The policy as git has it, else as recorded: no limit vanishes with its file."""
    found = desired.resources.get(POLICY) or next(iter(recorded_of(world, (POLICY,))), None)
    return POLICIES.spec(found) if found else DEFAULTS
