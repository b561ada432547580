"""`gpuaas grant`: the access that is in force."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import access as access_view
from reconciler.operations.access import grant as grant_operation


@group("grant")
def grant() -> None:
    """Show who has access to which allocations, and why.

    Access is given in files: by a Grant, or by a name in an allocation's `access`.
    """


@command("list", "text", "json", parent=grant)
@click.option(
    "--user", default="", metavar="NAME", help="Only allocations that this User has access to."
)
@click.option(
    "--allocation",
    metavar="REF",
    callback=check_ref,
    help="Only people with access to this allocation.",
)
def list_grants(session: Session, user: str, allocation: str | None) -> Reply:
    """List who has access to which allocations, and why.

    It lists everybody whom an allocation's `access` names and everybody with a grant, as last
    applied, with the keys that open it now; where no key does, the first reason why. Then follow
    people's own keys that were seen on hosts, which open nothing, and revocations that a host has
    not yet carried out.
    """
    found = grant_operation.review_access(open_fleet(session.folder), user, allocation or "")
    asked = [*([f"user {user}"] if user else ()), *([allocation] if allocation else ())]
    shown = access_view.lines(found, asked=asked, width=session.screen.width)
    return Reply(result=found, lines=shown)
