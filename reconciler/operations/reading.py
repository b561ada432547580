"""Reading the specs of a fleet, through the cache beside its state."""

from __future__ import annotations

from reconciler import shipped
from reconciler.model.desired import Desired
from reconciler.model.ref import Ref
from reconciler.operations.wiring import Fleet
from reconciler.specs.desired import load_desired


def wanted_refs(fleet: Fleet) -> frozenset[Ref]:
    """What the specs name, those included that have errors."""
    desired = read_desired(fleet)
    return frozenset((*desired.resources, *desired.frozen))


def read_desired(fleet: Fleet) -> Desired:
    """Everything git wants as the files stand now, with what is wrong with them."""
    with fleet.cache() as cache:
        return load_desired(fleet.settings, shipped.schemas(), cache)
