"""`gpuaas storage`."""

from __future__ import annotations

from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.confirm import agreement
from reconciler.cli.exit_codes import Exit, of_problems
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import storage as storage_view
from reconciler.cli.views.progress import ProgressView
from reconciler.model.state.reopening import ReopenRequest
from reconciler.operations.signals import Interrupts
from reconciler.operations.storage import fence as fence_operation
from reconciler.operations.storage import reopen as reopen_operation
from reconciler.operations.storage import storage as storage_operation

QUESTION = "Is it cut off, by your word?"
REOPEN = "Are they to own these files?"


@group("storage")
def storage() -> None:
    """Storage: durable data of projects, who has it, and what is kept of it.

    What is attached where stands in the spec.storage of allocations; a plan shows what it would
    attach, detach, keep or wipe.
    """


@command("list", "text", "json", parent=storage)
@click.option("--project", default="", metavar="NAME", help="Only what belongs to it.")
def list_storage(session: Session, project: str) -> Reply:
    """List storages: how large, where their data lies, who has them, and what they cost.

    STATE is `unused` before the first attachment, `pending` until a host has shown it, `made`,
    `kept` where its document is gone, `wiping` until a host has shown that it is gone.
    """
    rows = storage_operation.storages(open_fleet(session.folder), project)
    return Reply(result=rows, lines=storage_view.rows(rows, width=session.screen.width))


@command("show", "text", "json", parent=storage)
@click.argument("name", metavar="PROJECT/STORAGE")
def show(session: Session, name: str) -> Reply:
    """Show one storage: its document, its data, who has it and who had it.

    Its events: gpuaas timeline storage/PROJECT/STORAGE.
    """
    found = storage_operation.show_storage(open_fleet(session.folder), name)
    return Reply(result=found, lines=storage_view.lines(found, width=session.screen.width))


@command("orphans", "text", "json", parent=storage)
@click.option("--project", default="", metavar="NAME", help="Only what belonged to it.")
def orphans(session: Session, project: str) -> Reply:
    """List data that no document names: whose it is, since when, and where it lies.

    What is removed is kept unless `onDelete: wipe` was applied before. Data that a host has, and
    that this state knows nothing of, is listed as unknown.
    """
    rows = storage_operation.orphans(open_fleet(session.folder), project)
    return Reply(result=rows, lines=storage_view.orphans(rows, width=session.screen.width))


class StorageArguments(TypedDict):
    reason: str
    yes: bool
    lock_timeout: float


@command("fence", "text", "json", parent=storage)
@click.argument("name", metavar="PROJECT/STORAGE")
@click.option("--from", "allocation", required=True, metavar="ALLOCATION", help="Its ref or id.")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is sure; it is kept.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@lock_timeout
def fence(session: Session, name: str, allocation: str, **word: Unpack[StorageArguments]) -> Reply:
    """Cut an allocation off from a storage by your word, where no host can show it.

    Only an operator can, and not where its host has last shown it attached. It is shown first, and
    a yes asked for. It is for good: that allocation never gets the storage again, hosts may drop it
    from the record beside the data, and the next plan may attach it to somebody else. No host is
    asked or changed.
    """
    found = fence_operation.fence(
        open_to_write(session, word["lock_timeout"]),
        name,
        allocation,
        word["reason"],
        agreement(session, storage_view.severed, QUESTION, yes=word["yes"]),
    )
    return Reply(
        code=of_problems(found.problems),
        problems=found.problems,
        result=found,
        lines=storage_view.fenced(found),
    )


class ReopenArguments(TypedDict):
    old: str
    new: str
    reason: str
    to_others: bool


@command("reopen", "text", "json", parent=storage)
@click.argument("name", metavar="PROJECT/STORAGE")
@click.option("--from", "old", required=True, metavar="OLD", help="Who left them: its ref or id.")
@click.option("--to", "new", required=True, metavar="ALLOCATION", help="Who is to own them.")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, written to the audit log.")
@click.option("--to-others", is_flag=True, help="Even if they were another person's.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@lock_timeout
def reopen(
    session: Session,
    name: str,
    *,
    yes: bool,
    lock_timeout: float,
    **change: Unpack[ReopenArguments],
) -> Reply:
    """Give the files that an ended allocation left in a storage to another allocation.

    Each allocation has a uid of its own, so what somebody closed to all but themselves stays closed
    in their next one. This changes the owner of files of exactly that uid on the host where the
    other allocation has the storage; groups and modes stay. Only an operator can, only once the old
    one is proved gone, and only between allocations of one owner unless --to-others is given. It is
    shown first, and a yes asked for. Cut short, it goes on when it is said again.
    """
    progress = ProgressView(session.screen)
    with progress as report:
        found = reopen_operation.reopen(
            open_to_write(session, lock_timeout),
            ReopenRequest(storage=name, **change),
            agreement(session, storage_view.reopening, REOPEN, yes=yes),
            report,
            Interrupts(progress.wish),
        )
    return Reply(
        code=Exit.INTERRUPTED if found.interrupted else of_problems(found.problems),
        problems=found.problems,
        result=found,
        lines=storage_view.reopened(found),
    )


reopen.writes = True
