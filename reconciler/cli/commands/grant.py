"""`gpuaas grant`: the access that is in force."""

from __future__ import annotations

from importlib import import_module
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.how_to_edit import how_to_edit, wish_of
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


class GrantArguments(TypedDict):
    expires: str
    reason: str
    key: tuple[str, ...]
    name: str


@command("add", "text", "json", parent=grant)
@click.argument("user")
@click.argument("allocation", callback=check_ref)
@click.option(
    "--expires",
    required=True,
    metavar="TIME",
    help="When it ends: a time, or a length from now such as 24h.",
)
@click.option(
    "--reason", required=True, metavar="TEXT", help="Why they need it; kept with its events."
)
@click.option(
    "--key", multiple=True, metavar="ID", help="Key of theirs that opens it; all by default."
)
@click.option("--name", default="", metavar="NAME", help="Name of the grant; USER-on-ALLOCATION.")
@how_to_edit
def add(
    session: Session,
    user: str,
    allocation: str,
    *,
    printed: bool,
    commit: bool,
    **given: Unpack[GrantArguments],
) -> Reply:
    """Let a member of the project log in to an allocation for a while.

    A Grant is written into a file of its own and takes effect when that is applied. `gpuaas new
    grant` asks for the same, step by step.
    """
    adding = import_module("reconciler.operations.edit.add_grant")
    how = wish_of(printed=printed, commit=commit)
    request = adding.GrantWish(user=user, allocation=allocation, **given)
    made = adding.add_grant(open_fleet(session.folder), request, how)
    shown = import_module("reconciler.cli.views.new").lines(made)
    return Reply(problems=made.problems, result=made, raw=made.yaml if printed else "", lines=shown)


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
