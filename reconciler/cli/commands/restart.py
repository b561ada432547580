"""`gpuaas restart`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.reason import check_reason
from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import edited
from reconciler.operations.allocation.restart import Asked, ask_restart


@command("restart", "text", "json")
@click.argument("ref", callback=check_ref)
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    callback=check_reason,
    help="Why; it is kept with the restart.",
)
@click.option("--commit", is_flag=True, help="Commit the file, and nothing else.")
def restart(session: Session, ref: str, reason: str, commit: bool) -> Reply:
    """Ask for an allocation to be started anew, once.

    Its generation is raised by one in its file; nothing happens before that is applied. A part of
    a host ends all its sessions and processes and empties /tmp, /var/tmp and /dev/shm; a whole
    host is rebooted. Login, keys, home and scratch stay, and so do all neighbours.
    """
    found = ask_restart(open_fleet(session.folder), ref, reason, commit=commit)
    shown = edited.lines("restart", _what(found), _rows(found), f"Restart {found.ref}: {reason}")
    return Reply(result=found, lines=shown)


def _what(found: Asked) -> str:
    return f"{found.ref} is to come to generation {found.generation}"


def _rows(found: Asked) -> dict[str, str]:
    written = {"reason": found.reason, "written": f"{found.file}:{found.line}"}
    return {**written, "commit": found.commit} if found.commit else written
