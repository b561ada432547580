"""The chain of proofs: who has held a slot, and how each holder was proved gone."""

from __future__ import annotations

from reconciler.kinds.node.spec import NODES
from reconciler.model.host.capacity import Claim
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.state.tenancy import Tenancy
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.specs.read.suggest import did_you_mean
from reconciler.store.snapshot import read_world
from reconciler.store.tables.tenancies import tenancies


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The holders of a slot or node, oldest first."""

    place: str
    tenancies: tuple[Tenancy, ...]


def chain(fleet: Fleet, place: CleanupPlace) -> Chain:
    """The chain of a slot or node. Raises ProblemError `not_found` where none was ever known."""
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        found = tenancies(database, place.node, place.slot)
    if not found:
        insist_on_place(world, place)
    return Chain(place=str(place), tenancies=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlace:
    """A slot; or where `slot` is empty, a node with everything on it."""

    node: str
    slot: str = ""

    def __str__(self) -> str:
        return f"{self.node}/{self.slot}" if self.slot else self.node

    def holds(self, claim: Claim) -> bool:
        return claim.node == self.node and (not self.slot or claim.slot in (None, self.slot))


def place_of(text: str) -> CleanupPlace:
    """Parses `NODE/SLOT` or `NODE`, either of them behind `node/`."""
    node, _, slot = text.removeprefix("node/").partition("/")
    return CleanupPlace(node=node, slot=slot)


def insist_on_place(world: World, place: CleanupPlace) -> None:
    """Check that the node was applied or is claimed, and that it has the slot."""
    known = {ref.name for ref in world.refs_of("node")}
    known |= {claim.node for claim in world.claims}
    node = NODES.last(world, place.node)
    slots = [slot.name for slot in node.slots] if node else []
    slots += [claim.slot for claim in world.claims if claim.node == place.node and claim.slot]
    if place.node in known and (not place.slot or place.slot in slots):
        return
    names = [f"{place.node}/{slot}" for slot in slots] or sorted(known)
    hint = did_you_mean(str(place), names) or "see what there is: gpuaas slots"
    raise refuse("not_found", f"no place is called {place}", hint)
