"""The git history that is followed, and who accepted another one in its place."""

from __future__ import annotations

from reconciler.model.state.event import EventType
from reconciler.store.transaction import EventDraft, Record


def accept(record: Record, former: str, commit: str, reason: str) -> None:
    """From now on `commit` is followed, which does not come of the former one."""
    before, after = {"commit": former}, {"commit": commit}
    record.write(
        EventDraft(type=EventType.HISTORY_ACCEPTED, before=before, after=after, reason=reason)
    )
