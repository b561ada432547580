"""The snapshot: the whole state as one World, read in one transaction and decoded on demand.

Nothing here reads a projected view. Rows of resources and observations are decoded when somebody
asks for them: a plan of an unchanged fleet asks for few.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.store.file.database import Database
from reconciler.store.registry.registry import READ
from reconciler.store.tables.observations import read_observations
from reconciler.store.tables.resources import read_recorded


def read_world(database: Database) -> World:
    """Everything the store knows, of one moment. Raises ProblemError if it makes no sense."""
    with database.snapshot() as connection, _without_collector():
        return World(
            recorded=read_recorded(database, connection),
            observations=read_observations(database, connection),
            **{name: read(connection) for name, read in READ.items()},
        )


def read_digests(database: Database) -> Mapping[Ref, tuple[str, str]]:
    """(digest, basis) of every resource, from an index alone."""
    with database.snapshot() as connection, _without_collector():
        rows = connection.execute("SELECT kind, project, name, digest, basis FROM resource")
        return {Ref(kind, project, name): (one, basis) for kind, project, name, one, basis in rows}


@contextmanager
def _without_collector() -> Iterator[None]:
    """A big read makes no cycles; the collector would walk all of it again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
