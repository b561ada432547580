"""The tree of the loop: what it reads, for commands that say what it will do.

Nothing else of the loop is loaded for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from reconciler.model.problem import refuse
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.lease import is_held
from reconciler.specs.git import git
from reconciler.specs.git.mirror import Mirror
from reconciler.tries import tries

MIRROR = "source"
"""In the folder of the state."""
PATIENCE_SECONDS, ASK_SECONDS = 2.0, 0.1


class TreeReading(NamedTuple):
    """`fleet` reads exactly `commit`; that is empty where it reads its own folder."""

    fleet: Fleet
    commit: str


def mirror_of(fleet: Fleet) -> Mirror:
    return Mirror(fleet.state.resolve() / MIRROR, fleet.leaving)


def inner_of(fleet: Fleet) -> str:
    """What leads from the top of the repository to the fleet's folder; empty where it is none."""
    source = fleet.settings.loop.source
    if source.url:
        return source.path
    top = git.repository(fleet.settings)
    return "" if top is None else fleet.folder.relative_to(top).as_posix()


def as_it_reads(fleet: Fleet) -> TreeReading:
    """The fleet as a running loop reads it, else as it is.

    Raises ProblemError `loop_running` while that checks out another commit, and takes long.
    """
    if not is_held(fleet):
        return TreeReading(fleet, "")
    mirror = mirror_of(fleet)
    if not mirror.tree.is_dir():
        return TreeReading(fleet, "")
    for _ in tries(PATIENCE_SECONDS, rest=ASK_SECONDS):
        if commit := mirror.standing():
            return TreeReading(replace(fleet, tree=str(mirror.tree / inner_of(fleet))), commit)
    message = "the loop is checking out a commit, and what it will do is not known until it has"
    raise refuse("loop_running", message, "look again in a while")


def stands(reading: TreeReading) -> bool:
    """Whether what was read meanwhile is of that commit, and of no other."""
    return not reading.fleet.tree or mirror_of(reading.fleet).standing() == reading.commit
