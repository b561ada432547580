"""`gpuaas grant`: access as it is in force."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import access as access_view
from reconciler.operations.access import grant as grant_operation


@group("grant")
def grant() -> None:
    """See who is let in where, and why.

    Access is given by a file: a Grant, or a name in an allocation's `access`.
    """


@command("list", "text", "json", parent=grant)
@click.option("--user", default="", metavar="NAME", help="Only what this User may enter.")
@click.option(
    "--allocation",
    metavar="REF",
    callback=check_ref,
    help="Only who may enter this allocation.",
)
def list_grants(session: Session, user: str, allocation: str | None) -> Reply:
    """List who is let in where, and why.

    Everybody whom an allocation's `access` names and everybody with a grant, as last applied, with
    the keys that open it now and, where none does, the first reason why. Then keys of people's own
    that were seen on hosts, which open nothing, and revocations that a host was not yet told of.
    """
    found = grant_operation.review_access(open_fleet(session.folder), user, allocation or "")
    asked = [*([f"user {user}"] if user else ()), *([allocation] if allocation else ())]
    shown = access_view.lines(found, asked=asked, width=session.screen.width)
    return Reply(result=found, lines=shown)
