"""The scope of a plan: everything, or only the refs that were named and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

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
        """Whether an allocation may be kept in step: asked for, or for a cause that was."""
        return not self._refs or ref in self._refs or any(one in self._refs for one in causes)


def _unmatched(text: str, ref: Ref | None, there: Iterable[Ref]) -> Problem:
    hint = "a ref is kind/project/name or kind/name, as in allocation/vision/train-a"
    if ref is not None:
        alike = {str(one) for one in there if one.kind == ref.kind}
        close = get_close_matches(str(ref), sorted(alike), n=1, cutoff=0.8)
        hint = f"did you mean `{close[0]}`?" if close else "see what there is: gpuaas status"
    message = f"{text} names nothing in specs or state"
    return Problem(code="only_unmatched", message=message, hint=hint)
