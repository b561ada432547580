"""`gpuaas events`."""

from __future__ import annotations

import time

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import events as events_view
from reconciler.model.codec import encode
from reconciler.operations.fleet import Fleet
from reconciler.operations.history import events as events_operation

PAUSE = 1.0


@command("events", "text", "json", "jsonl")
@click.argument("ref", required=False, metavar="[REF]", callback=check_ref)
@click.option("--after", default=0, metavar="NUMBER", help="Only events after this one.")
@click.option("--follow", is_flag=True, help="Keep showing new events until Ctrl-C.")
def events(session: Session, ref: str | None, after: int, follow: bool) -> Reply:
    """Show who changed what, when and by which commit.

    Each line is one event, the oldest first, including events that have moved to archive files
    beside the state. `gpuaas state check` verifies the chain over all of them. The word in brackets
    is the component that wrote the event. With -o jsonl, each event is a document of its own.
    """
    if follow and session.format == "json":
        raise click.UsageError("a stream is never one document: use --follow with -o jsonl")
    fleet = open_fleet(session.folder)
    if follow or session.format == "jsonl":
        return _stream(session, fleet, ref or "", after, follow)
    found = events_operation.events(fleet, ref or "", after)
    if session.format == "json":
        return Reply(result=tuple(found))
    for shown in events_view.lines(found):
        session.screen.show([shown])
    return Reply(silent=True)


def _stream(session: Session, fleet: Fleet, ref: str, after: int, follow: bool) -> Reply:
    """Ends at the last event; with `follow`, when the reader closes the output or interrupts."""
    screen = session.screen
    try:
        while True:
            for event in events_operation.events(fleet, ref, after):
                after = event.sequence
                if session.wants_document:
                    screen.document(encode(event), compact=True)
                else:
                    screen.show([events_view.one(event)])
            if not follow or screen.left:
                return Reply(silent=True)
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        return Reply(code=Exit.INTERRUPTED, silent=True)
