"""The scope of a plan: everything, or the named refs with what they need and what follows.

What they need is what they cannot be without: whatever they refer to and that was never applied,
the hosts that are made ready for them, and whatever takes access to them away. A change of what is
there already waits until it is named itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from difflib import get_close_matches

from reconciler.kinds.access.takeaway import takes_away
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.fleet_rules import POLICY
from reconciler.kinds.grant import GRANTS
from reconciler.kinds.node.spec import NODES
from reconciler.kinds.registry import KINDS
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.reading import LETS_IN, whole
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.difference import Difference, of_kind
from reconciler.planner.nodes.prepare import unprepared

SEATED = frozenset({Action.CREATE, Action.REPLACE})
"""Actions by which an allocation asks for a place."""


class Scope:
    """The refs that a plan is limited to.

    Raises ProblemError `only_unmatched` for every text that names nothing.
    """

    def __init__(self, only: Iterable[str], desired: Desired, world: World) -> None:
        self._refs: set[Ref] = set()
        self._desired, self._world = desired, world
        unmatched = []
        claimed = {claim.ref for claim in world.claims}
        for text in only:
            ref = parse_ref(text)
            known = ref in desired.resources or ref in world.recorded or ref in desired.frozen
            if ref is not None and (known or ref in claimed):
                self._refs.add(ref)
            else:
                there = (*desired.resources, *world.recorded, *desired.frozen, *claimed)
                unmatched.append(_unmatched(text, ref, there))
        if unmatched:
            raise ProblemError(tuple(unmatched))

    def limit(self, differences: tuple[Difference, ...]) -> tuple[Difference, ...]:
        """The differences that were asked for; a rename goes by either of its names."""
        if not self._refs:
            return differences
        return tuple(d for d in differences if d.ref in self._refs or d.former in self._refs)

    def reaches(self, ref: Ref, causes: Collection[Ref | None]) -> bool:
        """Whether an allocation may follow a change: it was asked for, or the change was."""
        return not self._refs or ref in self._refs or any(one in self._refs for one in causes)

    def widened(self, differences: Iterable[Difference], more: Iterable[Ref] = ()) -> Scope:
        """The scope with `more`, and with what all of these need, and so on."""
        if not self._refs:
            return self
        wide = copy(self)
        by_ref = {one.ref: one for one in differences}
        new = by_ref.get(POLICY)
        left = [*self._refs, *more, *([POLICY] if new and new.action is Action.CREATE else [])]
        wide._refs = set(_revoking(set(left), by_ref, self._desired, self._world))
        never = {one.ref for one in by_ref.values() if is_first(one.action, one.recorded)}
        while left:
            ref = left.pop()
            wide._refs.add(ref)
            left += [one for one in needs(ref, self._desired, never) if one not in wide._refs]
        return wide

    def hosts(self, differences: Iterable[Difference]) -> frozenset[Ref]:
        """Nodes out of reach that a named allocation might be placed on, once prepared."""
        asked = self.limit(tuple(differences)) if self._refs else ()
        if not any(d.action in SEATED for d in of_kind(asked, "allocation")):
            return frozenset()
        new = {d.ref for d in of_kind(differences, "node") if d.action is Action.CREATE}
        nodes = (one for one in NODES.of(self._desired) if one.ref not in self._refs)
        return frozenset(one.ref for one in nodes if one.ref in new or unprepared(one, self._world))


def taken_by(claims: Iterable[ClaimIntent]) -> frozenset[Ref]:
    """Hosts on which somebody gets a place."""
    return frozenset(Ref("node", "", claim.node) for claim in claims)


def is_first(action: Action, recorded: Recorded | None) -> bool:
    """Whether a change makes something new, without which others cannot be made."""
    return action is Action.CREATE and recorded is None


def needs(ref: Ref, desired: Desired, never: Collection[Ref]) -> Iterator[Ref]:
    """What it refers to that was `never` applied."""
    resource = desired.resources.get(ref)
    for reference in KINDS[ref.kind].refs(resource) if resource else ():
        if reference.ref in never:
            yield reference.ref


def _revoking(
    named: Collection[Ref], by_ref: Mapping[Ref, Difference], desired: Desired, world: World
) -> Iterator[Ref]:
    """What ends somebody's access to one of them: removed grants, members and keys, and
    suspensions.

    An earlier end does so too. Both people who had access and those who are about to get it count.
    """
    people: set[str] = set()
    projects: set[str] = set()
    for ref in ALLOCATIONS.among(named):
        projects.add(ref.project)
        recorded, resource = world.recorded.get(ref), desired.resources.get(ref)
        people.update(resource.spec.access if resource else ())
        people.update(ALLOCATIONS.applied(recorded).access if recorded else ())
    for grant in GRANTS.of(desired):
        if Ref("allocation", grant.ref.project, grant.spec.allocation) in named:
            people.add(grant.spec.user)
    for ref, one in by_ref.items():
        if ref.kind not in LETS_IN or one.recorded is None or not _takes_away(one, one.recorded):
            continue
        if ref.kind == "grant":
            spec = GRANTS.applied(one.recorded)
            if Ref("allocation", ref.project, spec.allocation) in named:
                people.add(spec.user)
                yield ref
        if (ref.kind == "user" and ref.name in people) or (
            ref.kind == "project" and ref.name in projects
        ):
            yield ref


def _takes_away(one: Difference, recorded: Recorded) -> bool:
    """Whether it gives somebody less access, or none."""
    if one.resource is None:
        return True
    return takes_away(one.ref.kind, recorded, [whole(one.resource)])


def _unmatched(text: str, ref: Ref | None, there: Iterable[Ref]) -> Problem:
    hint = "a ref is kind/project/name or kind/name, as in allocation/vision/train-a"
    if ref is not None:
        alike = {str(one) for one in there if one.kind == ref.kind}
        close = get_close_matches(str(ref), sorted(alike), n=1, cutoff=0.8)
        hint = f"did you mean `{close[0]}`?" if close else "see what there is: gpuaas status"
    message = f"{text} names nothing in specs or state"
    return Problem(code="only_unmatched", message=message, hint=hint)
