"""`gpuaas forget`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.text import Span, Style, line
from reconciler.operations.allocation import forget as forget_operation


@command("forget", "text", "json")
@click.argument("ref", metavar="REF", callback=check_ref)
@click.option("--reason", required=True, metavar="TEXT", help="Reason, written to the audit log.")
def forget(session: Session, ref: str, reason: str) -> Reply:
    """Stop managing an allocation; its host is not touched.

    Remove its document from the specs first. Its account, data and keys then stay on the host, and
    it keeps its slots, because nobody has proved them clean. Who had access keeps it: nothing is
    revoked there. A commit that names the allocation again, unchanged, takes it back.
    """
    one = forget_operation.forget(open_fleet(session.folder), ref, reason)
    where = f"{one.node}/{','.join(one.slots)}"
    told = f"{one.ref}: {one.login} stays on {where}, and holds it"
    return Reply(
        result={"ref": str(one.ref), "login": one.login, "node": one.node, "slots": one.slots},
        lines=[line(Span("forgotten ", Style.GOOD), told, hang=2)],
    )
