"""The scope of a plan: everything, or only the refs that were named and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reconciler.model.desired import Desired
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.world import World
from reconciler.planner.diff import Difference


class Scope:
    """Raises ProblemError `only_unmatched` for every text that names nothing."""

    def __init__(self, only: Iterable[str], desired: Desired, world: World) -> None:
        self._refs: set[Ref] = set()
        unmatched = []
        claimed = {claim.ref for claim in world.claims}
        for text in only:
            ref = parse_ref(text)
            known = ref in desired.resources or ref in world.recorded or ref in desired.frozen
            if ref is not None and (known or ref in claimed):
                self._refs.add(ref)
            else:
                unmatched.append(_unmatched(text))
        if unmatched:
            raise ProblemError(tuple(unmatched))

    def limit(self, differences: tuple[Difference, ...]) -> tuple[Difference, ...]:
        """The differences that were asked for; a rename goes by either of its names."""
        if not self._refs:
            return differences
        return tuple(d for d in differences if d.ref in self._refs or d.former in self._refs)

    def reaches(self, ref: Ref, causes: Collection[Ref | None]) -> bool:
        """Whether an allocation may be kept in step: asked for, or for a cause that was."""
        return not self._refs or ref in self._refs or any(one in self._refs for one in causes)


def _unmatched(text: str) -> Problem:
    return Problem(
        code="only_unmatched",
        message=f"{text} names nothing in specs or state",
        hint="a ref is kind/project/name or kind/name, as in allocation/vision/train-a",
    )
