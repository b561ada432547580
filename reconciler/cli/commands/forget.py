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
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept.")
def forget(session: Session, ref: str, reason: str) -> Reply:
    """Leave an allocation on its host, and do nothing about it any more.

    Its document is taken out of the specs first. Then nothing of it is touched: account, data and
    keys stay, and it holds its slots, as nobody has proved them clean. Who had access keeps it:
    nothing is revoked there. A commit that names it again as it was takes it back.
    """
    one = forget_operation.forget(open_fleet(session.folder), ref, reason)
    where = f"{one.node}/{','.join(one.slots)}"
    told = f"{one.ref}: {one.login} stays on {where}, and holds it"
    return Reply(
        result={"ref": str(one.ref), "login": one.login, "node": one.node, "slots": one.slots},
        lines=[line(Span("forgotten ", Style.GOOD), told, hang=2)],
    )
