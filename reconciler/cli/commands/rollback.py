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
@click.option("--all", "everything", is_flag=True, help="Roll back all files of the spec root.")
@click.option(
    "--to",
    required=True,
    metavar="COMMIT|TIME",
    help="Restore the state at this commit, or at the last one before this time.",
)
@click.option("--write", is_flag=True, help="Write the files.")
@click.option("--commit", is_flag=True, help="Write the files and commit them, and nothing else.")
@click.option(
    "--with-access", is_flag=True, help="Also restore access that was taken away since then."
)
def rollback(session: Session, **given: Unpack[RollbackArguments]) -> Reply:
    """Show the change that restores specs as they were, and the plan that follows.

    REF names one document, whatever file it is in now; --all means every file. Access that was
    taken away since then stays away (keys, people, members and grants), unless --with-access is
    given. The command says what cannot come back and shows the plan that would follow; no host is
    touched before that is applied.
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
