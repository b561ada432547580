"""Moves: unchanged documents in another file, recorded so that their place is known.

Nothing is done for them, and nobody is asked. But a revocation is read from the file that somebody
was applied from, and whoever writes there again has no say in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.reading import LETS_IN
from reconciler.model.state.world import World

MOVING = LETS_IN | {"storage"}
"""Of what holds something its folder is asked for, too: whether all that lay there is gone."""


def moved(desired: Desired, world: World, told: Collection[Ref]) -> Iterator[tuple[str, str]]:
    """Each that is as it was recorded and not among what is `told` of anyway, with its file."""
    for kind in sorted(MOVING):
        for resource in desired.of(kind):
            ref, recorded = resource.ref, world.recorded.get(resource.ref)
            if recorded is None or recorded.file == resource.file or ref in told:
                continue
            same = recorded.digest == resource.digest and not recorded.forgotten
            if same and recorded.phase is Phase.ACTIVE and ref not in desired.lessened:
                yield str(ref), resource.file
