"""A resource leaves the books, or goes on under another name, with all that tables know of it."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.model.ref import Ref
from reconciler.store.registry.registry import FORGET, LEAVE, RENAME, STAYS, unsee
from reconciler.store.tables import resources
from reconciler.store.transaction import Record


def forget(record: Record, refs: Sequence[Ref]) -> None:
    """Take resources off the books; one whose slots are not proved clean stays, as releasing, and
    so does one that a table says stays.
    """
    live = resources.live(record, refs)
    names = {str(ref) for ref in refs}
    stay = live.union(*(stays(record.connection, names) for stays in STAYS))
    gone = [ref for ref in resources.known(record, refs) if str(ref) not in stay]
    for leave in LEAVE:
        leave(record, gone)
    resources.remove(record, gone)
    unsee(record, gone)
    for table in FORGET:
        table(record, gone)
    resources.block(record, live)


def rename(record: Record, former: Ref, ref: Ref) -> None:
    """One resource under another name; its claims go with it, its id and login stay."""
    resources.rename(record, former, ref)
    unsee(record, [former])
    for table in RENAME:
        table(record, former, ref)
