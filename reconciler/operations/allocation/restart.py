"""`restart`: the next generation and its reason are written into the allocation's file.

Nothing happens by it on any host; whoever applies it says yes to what it interrupts.
"""

from __future__ import annotations

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.operations.fleet import Fleet
from reconciler.operations.references import allocation_of
from reconciler.operations.specs import read_desired
from reconciler.specs.edit.edit import set_values
from reconciler.specs.git import git
from reconciler.store.snapshot import read_world

PATH = ("spec", "restart")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was written and where; `commit` is empty unless the file was committed."""

    ref: str
    generation: int
    reason: str
    file: str
    line: int
    commit: str = ""


def ask_restart(fleet: Fleet, named: str, reason: str, *, commit: bool) -> Asked:
    """Raise the generation by one. Raises ProblemError, and then nothing was written.

    It is refused for a ref that is no allocation in git, that has a restart pending, or whose file
    cannot be edited.
    """
    desired = read_desired(fleet)
    resource = allocation_of(desired, named)
    ref = resource.ref
    before = resource.spec.restart.generation
    if _is_asked(fleet, ref, before):
        raise refuse(
            "restart_pending",
            f"{ref} is to be restarted already: generation {before} is in its file, not applied",
            "commit it if that is still to be done, then: gpuaas apply",
        )
    values = {"generation": before + 1, "reason": reason}
    if commit:
        git.insist_on_rest(fleet.settings, resource.file)
    place = set_values(fleet.settings, resource.file, resource.document, PATH, values)
    message = f"Restart {ref}: {reason}"
    return Asked(
        ref=str(ref),
        generation=before + 1,
        reason=reason,
        file=resource.file,
        line=place.line,
        commit=git.commit(fleet.settings, resource.file, message) if commit else "",
    )


def _is_asked(fleet: Fleet, ref: Ref, generation: int) -> bool:
    """Whether a restart in the file has not been applied; what was never applied needs none."""
    if not fleet.database_file.exists():
        return False
    with fleet.reading() as database:
        recorded = read_world(database).recorded.get(ref)
    if recorded is None:
        return False
    return generation > ALLOCATIONS.applied(recorded).restart.generation
