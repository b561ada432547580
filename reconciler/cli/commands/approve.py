"""`gpuaas approve`."""

from __future__ import annotations

from datetime import timedelta

import click

from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.arguments.times import as_duration
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.views import approvals as approvals_view
from reconciler.operations.approval.approvals import ApprovalRequest
from reconciler.operations.approval.approvals import approve as give


@command("approve", "text", "json")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", required=True, metavar="TEXT", help="Reason, written to the audit log.")
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    callback=as_duration,
    help="How long the approval is valid, such as 4h; at most what the Policy allows.",
)
@lock_timeout
def approve(
    session: Session,
    ids: tuple[str, ...],
    reason: str,
    duration: timedelta | None,
    lock_timeout: float,
) -> Reply:
    """Approve held changes as they are now.

    ID comes from `gpuaas approvals` and names one change, or all changes that are held for the same
    reason. Approving does nothing by itself: the next plan carries the change out. An approval
    counts once, for the change as it is, and expires. Where the Policy wants two people for a risk,
    nobody can approve their own change.
    """
    word = ApprovalRequest(ids=ids, reason=reason, lasts=duration)
    found = give(open_to_write(session, lock_timeout), word)
    return Reply(result=found, lines=approvals_view.approved(found))


approve.writes = True
