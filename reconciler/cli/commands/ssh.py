"""`gpuaas ssh`."""

from __future__ import annotations

from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, whence
from reconciler.cli.text import line
from reconciler.operations.access import ssh as ssh_operation


class Way(TypedDict):
    only_print: bool
    jupyter: bool
    source: str


@command("ssh")
@click.argument("ref", metavar="REF", callback=check_ref)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--print", "only_print", is_flag=True, help="Print the ssh command instead of running it."
)
@click.option("--jupyter", is_flag=True, help="Open JupyterLab there instead, at a local port.")
@from_option
def ssh(session: Session, ref: str, words: tuple[str, ...], **way: Unpack[Way]) -> Reply:
    """Log in to an allocation with your own keys.

    The command becomes OpenSSH's ssh, which accepts only the host keys that the fleet has pinned.
    Keys, agent and jump hosts come from your ~/.ssh/config. No file is left behind. COMMAND is run
    there instead of a shell; write -- before it if it has options.

    --jupyter starts JupyterLab from the bundle that the allocation names, on a socket that nobody
    else on the host can reach, and forwards a free local port to it until Ctrl-C. What runs in it
    goes on afterwards; `gpuaas-runtime notebook stop` ends it.
    """
    place = whence(session.folder, way["source"])
    if way["jupyter"]:
        if words or way["only_print"]:
            raise click.UsageError("--jupyter takes neither a command nor --print")
        opened = ssh_operation.notebook(place, ref)
        told = [line(f"JupyterLab: {opened.url}"), line("until Ctrl-C")]
        ssh_operation.forward(opened, lambda: session.screen.tell(told))
    if not way["only_print"]:
        ssh_operation.ssh(place, ref, words)
    return Reply(raw=ssh_operation.ssh_line(place, ref, words))
