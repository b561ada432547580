"""`gpuaas proof`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import complete_node
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import chained as chained_view
from reconciler.operations.allocation import proof as proof_operation


@group("proof")
def proof() -> None:
    """Proofs: what showed that a place was left clean."""


@command("show", "text", "json", parent=proof)
@click.argument("place", metavar="NODE[/SLOT]", shell_complete=complete_node)
@click.option("--all", "everything", is_flag=True, help="Every check of every proof.")
def show(session: Session, place: str, everything: bool) -> Reply:
    """Show who has had a slot or node, one after the other, and how each was proved gone.

    Of each: the last proof with every check and what it measured, and how often one was tried
    before; or whose word stands for it. Unknown is not proved.
    """
    found = proof_operation.chain(open_fleet(session.folder), proof_operation.place_of(place))
    return Reply(result=found, lines=chained_view.lines(found, everything=everything))
