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
    """Proofs: the evidence that a slot or node was cleaned."""


@command("show", "text", "json", parent=proof)
@click.argument("place", metavar="NODE[/SLOT]", shell_complete=complete_node)
@click.option("--all", "everything", is_flag=True, help="Show every check of every proof.")
def show(session: Session, place: str, everything: bool) -> Reply:
    """Show who has held a slot or node, and how each holder was proved gone.

    For each holder it shows the last proof with every check and what it measured, how many proofs
    were tried before, or who overrode it. Unknown is not proved.
    """
    found = proof_operation.chain(open_fleet(session.folder), proof_operation.place_of(place))
    return Reply(result=found, lines=chained_view.lines(found, everything=everything))
