"""`forget`: an allocation is managed no longer, and its host is not touched.

It keeps its slots, since nobody has proved them clean. Named in git again as it was, it is taken
back by the next apply, after a look at its host.
"""

from __future__ import annotations

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Recorded
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.person import insist_on_reason
from reconciler.operations.references import ref_of, unknown
from reconciler.operations.specs import read_desired
from reconciler.store.tables import acceptances


def forget(fleet: Fleet, ref_text: str, reason: str) -> Recorded:
    """Stop managing an allocation. Raises ProblemError `not_found`, `in_use`, `protected` and
    others.
    """
    ref = ref_of(ref_text)
    insist_on_reason(reason)
    desired = read_desired(fleet)
    with writing(fleet, "forget") as journal:
        world = journal.world()
        one = world.recorded.get(ref)
        if one is None or not one.id or one.forgotten:
            there = (ref for ref, one in world.recorded.items() if one.id and not one.forgotten)
            raise unknown(ref, "no allocation that is recorded", there)
        _insist_on_free(ref, one, desired)
        journal.enter("let_go", acceptances.let_go, one, reason)
    return one


def _insist_on_free(ref: Ref, one: Recorded, desired: Desired) -> None:
    """Check that no other resource refers to it or may do so."""
    if desired.names(ref) or desired.unread(ref) or desired.blind:
        raise refuse(
            "in_use",
            f"the specs or their commit name {ref}, or hold what cannot be read and may do so",
            "take its document out and commit that; it stays as it is until an apply",
        )
    if one.protect:
        raise refuse("protected", f"{ref} is protected", "set protect: false, and apply that")
    if one.phase is not Phase.ACTIVE:
        raise refuse("in_use", f"{ref} is {one.phase}", "see what is under way: gpuaas show")
