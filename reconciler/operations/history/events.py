"""`events`: who changed what, when and by which commit."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.state.event import Event
from reconciler.operations.fleet import Fleet
from reconciler.operations.references import insist_on_ref, ref_of
from reconciler.store import queries
from reconciler.store.snapshot import read_world


def events(fleet: Fleet, ref_text: str = "", after: int = 0) -> Iterator[Event]:
    """Events after the sequence number `after`, oldest first; of one resource, or all.

    Raises ProblemError `not_found` for one that nobody has ever heard of.
    """
    ref = ref_of(ref_text) if ref_text else None
    with fleet.reading() as database:
        if ref is not None and not queries.was(database, str(ref)):
            insist_on_ref(fleet, database, read_world(database), ref)
        yield from queries.events(database, str(ref or ""), after)
