"""`gpuaas evidence`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import evidence as evidence_view
from reconciler.operations.show import evidence as evidence_operation


@command("evidence", "text", "json")
@click.argument("ref", metavar="REF", callback=check_ref)
def evidence(session: Session, ref: str) -> Reply:
    """Show what a host reported about an allocation or node, and what was proved.

    The command shows when the host last answered, with which probe and in which boot; approvals;
    every readiness check; every fact that is required beside what the host shows; the proofs of its
    slots; and its events.
    """
    found = evidence_operation.evidence(open_fleet(session.folder), ref)
    return Reply(result=found, lines=evidence_view.lines(found))
