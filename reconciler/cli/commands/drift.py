"""`gpuaas drift`."""

from __future__ import annotations

from datetime import datetime

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.arguments.times import as_moment
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import drift as drift_view
from reconciler.model.plan.drift import Becomes
from reconciler.operations.drift import accept as accept_operation
from reconciler.operations.drift import drift as drift_operation


class DriftGroup(click.Group):
    """Runs `drift list` where no verb is named, or a REF stands in its place."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = bool(args) and (args[0] in self.commands or args[0] in ("--help", "-h"))
        return super().parse_args(ctx, args if known else ["list", *args])


@click.group("drift", cls=DriftGroup)
def drift() -> None:
    """Show where hosts differ from what was applied.

    Without a verb, it is `gpuaas drift list`.
    """


@command("list", "text", "json", parent=drift)
@click.argument("ref", metavar="[REF]", callback=check_ref, required=False)
@click.option("--ask", is_flag=True, help="Ask every host now; the answers are not recorded.")
def list_drift(session: Session, ref: str | None, ask: bool) -> Reply:
    """List where hosts differ from what was applied.

    The differences are listed by class: what the platform made, which the next apply restores;
    access, which it restores too and which is an alarm; a person's own files, which are never
    touched; and hardware and system, which are only reported. Nothing is written, neither to hosts
    nor to the state. Exits 4 if there is any drift that nobody has accepted, or anything that could
    not be checked.
    """
    found = drift_operation.find_drift(open_fleet(session.folder), ref or "", ask=ask)
    open_ = found.silent or any(one.becomes is not Becomes.ACCEPTED for one in found.found)
    most = len(found.found) if ref else drift_view.MOST
    return Reply(
        code=Exit.DRIFT if open_ else Exit.DONE,
        result=found,
        lines=drift_view.lines(found, width=session.screen.width, most=most),
    )


@command("accept", "text", "json", parent=drift)
@click.argument("ref", metavar="REF", callback=check_ref)
@click.argument("key", metavar="KEY")
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Why the drift may stay; written to the audit log.",
)
@click.option(
    "--until",
    required=True,
    metavar="TIME",
    callback=as_moment,
    help="When the acceptance ends, such as 2026-12-24T12:00:00Z.",
)
def accept(session: Session, ref: str, key: str, reason: str, until: datetime) -> Reply:
    """Accept a drift as it is now, until a time.

    KEY is the key that `gpuaas drift` shows. Only what was seen is accepted: if it changes again,
    it is drift again. Drift of who may log in cannot be accepted.
    """
    word = accept_operation.AcceptRequest(ref=ref, key=key, reason=reason, until=until)
    given = accept_operation.accept_drift(open_fleet(session.folder), word)
    return Reply(result=given, lines=drift_view.accepted(given))


@command("retract", "text", "json", parent=drift)
@click.argument("ref", metavar="REF", callback=check_ref)
@click.argument("key", metavar="KEY")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, written to the audit log.")
def retract(session: Session, ref: str, key: str, reason: str) -> Reply:
    """Withdraw the acceptance of a drift: the next apply repairs it."""
    given = accept_operation.retract_drift(open_fleet(session.folder), ref, key, reason)
    return Reply(result=given, lines=drift_view.retracted(given))
