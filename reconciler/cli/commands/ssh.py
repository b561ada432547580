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
@click.option("--print", "only_print", is_flag=True, help="Print the line, ready to be pasted.")
@click.option("--jupyter", is_flag=True, help="Open JupyterLab there instead, at a port here.")
@from_option
def ssh(session: Session, ref: str, words: tuple[str, ...], **way: Unpack[Way]) -> Reply:
    """Log in to an allocation with your own keys.

    It goes on as OpenSSH's ssh, told to believe none but the host keys that the fleet has pinned;
    your keys, agent and jump hosts are those of your ~/.ssh/config. Nothing is left behind.
    COMMAND is run there instead of a shell; write -- before it if it has options.

    With --jupyter it starts JupyterLab, of the bundle that the allocation names, on a socket that
    nobody else on the host can reach, and forwards a free port of this machine to it until Ctrl-C.
    What runs in there goes on; `gpuaas-runtime notebook stop` ends it.
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
