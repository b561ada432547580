"""`gpuaas storage`."""

from __future__ import annotations

from importlib import import_module
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.how_to_edit import how_to_edit, wish_of
from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.confirm import agreement
from reconciler.cli.edited import answered as edited
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
    """Storage: durable data of projects, where it is attached, and what is kept.

    Attachments are written in the spec.storage of allocations. A plan shows what it would attach,
    detach, keep or wipe.
    """


@command("list", "text", "json", parent=storage)
@click.option("--project", default="", metavar="NAME", help="Only storages of this project.")
def list_storage(session: Session, project: str) -> Reply:
    """List storages: size, location, attachments and cost.

    STATE is `unused` before the first attachment, `pending` until a host has shown the data, then
    `made`; `kept` where the document is gone; `wiping` until a host has shown that the data is
    gone.
    """
    rows = storage_operation.storages(open_fleet(session.folder), project)
    return Reply(result=rows, lines=storage_view.rows(rows, width=session.screen.width))


@command("show", "text", "json", parent=storage)
@click.argument("name", metavar="PROJECT/STORAGE")
def show(session: Session, name: str) -> Reply:
    """Show one storage: its document, its data, and its attachments, past ones too.

    `gpuaas timeline storage/PROJECT/STORAGE` shows its events.
    """
    found = storage_operation.show_storage(open_fleet(session.folder), name)
    return Reply(result=found, lines=storage_view.lines(found, width=session.screen.width))


@command("orphans", "text", "json", parent=storage)
@click.option("--project", default="", metavar="NAME", help="Only data of this project.")
def orphans(session: Session, project: str) -> Reply:
    """List data that no document names: whose it was, since when, and where it is.

    The data of a removed storage is kept unless `onDelete: wipe` was applied before. Data that a
    host has and that this state does not know is listed as unknown.
    """
    rows = storage_operation.orphans(open_fleet(session.folder), project)
    return Reply(result=rows, lines=storage_view.orphans(rows, width=session.screen.width))


class AttachArguments(TypedDict):
    allocation: str
    mode: str
    path: str


@command("attach", "text", "json", parent=storage)
@click.argument("name", metavar="PROJECT/STORAGE")
@click.option(
    "--to",
    "allocation",
    required=True,
    metavar="ALLOCATION",
    help="Allocation of the project, by its ref or its name.",
)
@click.option(
    "--mode",
    type=click.Choice(["ro", "rw"]),
    help="Read only, or read and write; by default as the storage is shared.",
)
@click.option("--path", metavar="PATH", help="Where it appears; /data/NAME if not stated.")
@how_to_edit
def attach(
    session: Session,
    name: str,
    *,
    printed: bool,
    commit: bool,
    **wish: Unpack[AttachArguments],
) -> Reply:
    """Attach a storage to an allocation, or change how it is attached.

    It is written into the allocation's file and takes effect when that is applied.
    """
    attaching = import_module("reconciler.operations.edit.attach")
    how = wish_of(printed=printed, commit=commit)
    stated = {key: value or "" for key, value in wish.items()}
    request = attaching.AttachWish(storage=name, **stated)
    return edited(session, attaching.attach(open_fleet(session.folder), request, how), how)


@command("detach", "text", "json", parent=storage)
@click.argument("name", metavar="PROJECT/STORAGE")
@click.option(
    "--from",
    "allocation",
    required=True,
    metavar="ALLOCATION",
    help="Allocation of the project, by its ref or its name.",
)
@how_to_edit
def detach(session: Session, name: str, allocation: str, printed: bool, commit: bool) -> Reply:
    """Detach a storage from an allocation; its data is kept.

    It is taken out of the allocation's file, and the storage is detached when that is applied. If
    no host can confirm that: gpuaas storage fence.
    """
    how = wish_of(printed=printed, commit=commit)
    attaching = import_module("reconciler.operations.edit.attach")
    found = attaching.detach(open_fleet(session.folder), name, allocation, how)
    return edited(session, found, how)


class StorageArguments(TypedDict):
    reason: str
    yes: bool
    lock_timeout: float


@command("fence", "text", "json", parent=storage)
@click.argument("name", metavar="PROJECT/STORAGE")
@click.option(
    "--from",
    "allocation",
    required=True,
    metavar="ALLOCATION",
    help="Ref or id of the allocation to detach.",
)
@click.option(
    "--reason", required=True, metavar="TEXT", help="Why this is safe; written to the audit log."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@lock_timeout
def fence(session: Session, name: str, allocation: str, **word: Unpack[StorageArguments]) -> Reply:
    """Force-detach a storage when its host cannot confirm the detach.

    Only operators may do this, and not if the host last showed the storage attached. The attachment
    is shown first, and you are asked to confirm. It cannot be undone: the allocation never gets
    this storage again, hosts may drop it from the record beside the data, and the next plan may
    attach the storage to another allocation. No host is asked or changed.
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
@click.option(
    "--from",
    "old",
    required=True,
    metavar="OLD",
    help="Ref or id of the allocation that left the files.",
)
@click.option(
    "--to", "new", required=True, metavar="ALLOCATION", help="The allocation that is to own them."
)
@click.option("--reason", required=True, metavar="TEXT", help="Reason, written to the audit log.")
@click.option("--to-others", is_flag=True, help="Even if they belonged to another person.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
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

    Each allocation has a uid of its own, so private files of an ended allocation stay closed to the
    next allocation of the same person. This command changes the owner of files with exactly that
    uid, on the host where the other allocation has the storage; groups and modes stay. Only
    operators may do this, only after the old allocation is proved gone, and only between
    allocations of one owner unless --to-others is given. It is shown first, and you are asked to
    confirm. If it is interrupted, run it again: it continues.
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
