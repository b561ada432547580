"""The answer of a command that edits a spec."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session
from reconciler.cli.views import edit as view
from reconciler.operations.edit.contract import EditWish, SpecEdit


def answered(session: Session, found: SpecEdit, wish: EditWish) -> Reply:
    """The patch alone where nothing was to be written, as it is if no terminal would read it."""
    raw = "" if wish.write or session.screen.width else found.patch
    return Reply(
        problems=found.problems,
        result=found,
        raw=raw,
        silent=not (wish.write or found.changes or session.wants_document),
        lines=view.lines(found),
    )
