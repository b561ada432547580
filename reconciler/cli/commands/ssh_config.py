"""`gpuaas ssh-config`."""

from __future__ import annotations

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, whence
from reconciler.operations import reaching


@command("ssh-config")
@click.option("--project", default="", metavar="NAME", help="Only this project's allocations.")
@from_option
def ssh_config(session: Session, project: str, source: str) -> Reply:
    """Print what lets your own ssh reach allocations by name.

    For ~/.ssh/config: append it there, or write it to a file of its own and add `Include FILE` as
    the first line. Then `ssh NAME.PROJECT` logs in, and only where the pinned host key answers.
    """
    return Reply(raw=reaching.config_text(whence(session.folder, source), project))
