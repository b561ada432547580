"""`gpuaas rollback`."""

from __future__ import annotations

from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import rollback as view
from reconciler.model.ref import parse_ref
from reconciler.operations.plan.rollback import RollbackRequest, roll_back


class RollbackArguments(TypedDict):
    ref: str | None
    everything: bool
    to: str
    write: bool
    commit: bool
    with_access: bool


@command("rollback", "text", "json", "patch")
@click.argument("ref", required=False, callback=check_ref)
@click.option("--all", "everything", is_flag=True, help="All files of the spec root.")
@click.option(
    "--to",
    required=True,
    metavar="COMMIT|TIME",
    help="As it stood at this commit, or at the last one before this time.",
)
@click.option("--write", is_flag=True, help="Write the files.")
@click.option("--commit", is_flag=True, help="Write the files and commit them, and nothing else.")
@click.option(
    "--with-access", is_flag=True, help="Let in again whom or what was shut since, as well."
)
def rollback(session: Session, **given: Unpack[RollbackArguments]) -> Reply:
    """Show the change that puts specs back as they stood, and what follows from it.

    One document, wherever it stands by now, or with --all every file. What was shut since stays
    shut, unless --with-access: keys, people, members and grants. It says what cannot come back,
    and shows the plan that would follow; no host is touched before that is applied.
    """
    ref = given["ref"]
    if bool(ref) == given["everything"]:
        raise click.UsageError("name one REF, or say --all")
    if given["write"] and given["commit"]:
        raise click.UsageError("--commit writes the files as well: give one of the two")
    wish = RollbackRequest(
        ref=parse_ref(ref) if ref else None,
        to=given["to"],
        write=given["write"],
        commit=given["commit"],
        with_access=given["with_access"],
    )
    found = roll_back(open_fleet(session.folder), wish)
    if session.format == "patch":
        session.screen.tell(view.told(found))
    return Reply(
        code=Exit.HELD if found.excluded else Exit.DONE,
        result=view.view(found) if session.wants_document else None,
        raw=found.patch if session.format == "patch" else "",
        silent=session.format == "patch" and not found.patch,
        lines=view.lines(found),
    )


rollback.writes = True
