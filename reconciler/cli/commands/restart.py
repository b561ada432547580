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
    help="Reason, kept with the restart.",
)
@click.option("--commit", is_flag=True, help="Commit the file, and nothing else.")
def restart(session: Session, ref: str, reason: str, commit: bool) -> Reply:
    """Ask for one restart of an allocation.

    The allocation's generation is raised by one in its file; the restart happens when that is
    applied. On a part of a host, all its sessions and processes end, and its /tmp, /var/tmp and
    /dev/shm are emptied; a whole host is rebooted. Login, keys, home and scratch stay, and other
    allocations are not affected.
    """
    found = ask_restart(open_fleet(session.folder), ref, reason, commit=commit)
    shown = edited.lines("restart", _what(found), _rows(found), f"Restart {found.ref}: {reason}")
    return Reply(result=found, lines=shown)


def _what(found: Asked) -> str:
    return f"{found.ref} is to come to generation {found.generation}"


def _rows(found: Asked) -> dict[str, str]:
    written = {"reason": found.reason, "written": f"{found.file}:{found.line}"}
    return {**written, "commit": found.commit} if found.commit else written
