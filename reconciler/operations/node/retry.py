"""`node retry`: the failures counted against a node are cleared."""

from __future__ import annotations

from reconciler.model.records import dataclass
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.references import NODE_LIST, no_such_name
from reconciler.operations.specs import read_desired
from reconciler.store.tables import failures


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What counted against it until now; empty where nothing did."""

    node: str
    failed: str = ""


def retry(fleet: Fleet, name: str) -> Cleared:
    """Clear the failures of a node. Raises ProblemError `not_found` for an unknown one."""
    with writing(fleet, "node retry") as journal:
        world = journal.world()
        failure = world.failures.get(name)
        if failure is not None:
            journal.enter("retry", failures.clear, name, "somebody says that it is mended")
            return Cleared(node=name, failed=failure.told(fleet.now()))
        known = {one.name for one in world.refs_of("node")}
    known |= {one.ref.name for one in read_desired(fleet).of("node")}
    if name not in known:
        raise no_such_name("node", name, known, NODE_LIST)
    return Cleared(node=name)
