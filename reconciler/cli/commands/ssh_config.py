"""`gpuaas ssh-config`."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, whence
from reconciler.cli.text import Span, Style, TextLine, line
from reconciler.operations.access import ssh_config as ssh_config_operation

MOST = 4


@command("ssh-config")
@click.option("--project", default="", metavar="NAME", help="Only allocations of this project.")
@from_option
def ssh_config(session: Session, project: str, source: str) -> Reply:
    """Print an ssh configuration that reaches allocations by name.

    Write it to a file of its own, such as `gpuaas ssh-config > ~/.ssh/gpuaas`, and make `Include
    ~/.ssh/gpuaas` the first line of ~/.ssh/config: ssh takes the first value it finds, so an
    Include below `Host *` has no effect. Then `ssh NAME.PROJECT` logs in, and only where the pinned
    host key answers.
    """
    text = ssh_config_operation.config_text(whence(session.folder, source), project)
    for file in dict.fromkeys(filter(None, (_appended_to(), _own_config(text)))):
        session.screen.tell(_lost(file, text))
    return Reply(raw=text)


def _lost(file: Path, text: str) -> Iterator[TextLine]:
    """Lines of `file` that come first and therefore override what is printed here."""
    try:
        found = ssh_config_operation.lost_to(
            file.read_text(encoding="utf-8", errors="replace"), text
        )
    except OSError:
        return
    if not found:
        return
    head = f": {file} says these above, and ssh takes the first value that it finds:"
    yield line(Span("warning", Style.WARN), head, hang=2)
    for one in found[:MOST]:
        yield line(f"  line {one.line}: {one.option} (below: {one.where})", hang=4)
    if len(found) > MOST:
        yield line(f"  and {len(found) - MOST} more")
    yield line("  hint: gpuaas ssh-config > ~/.ssh/gpuaas", hang=8)
    yield line("        and as the first line of ~/.ssh/config: Include ~/.ssh/gpuaas", hang=8)


def _appended_to() -> Path | None:
    """The file that standard output is appended to, if it exists and is not empty."""
    try:
        number = sys.stdout.fileno()
        told = os.fstat(number)
        appends = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND
        if not (stat.S_ISREG(told.st_mode) and told.st_size and appends):
            return None
        return Path(os.readlink(f"/proc/self/fd/{number}"))
    except (OSError, ValueError, AttributeError):
        return None


def _own_config(text: str) -> Path | None:
    """The person's own ssh configuration, if it contains such blocks already."""
    file = Path("~/.ssh/config").expanduser()
    hosts = [one for one in text.splitlines() if one.startswith("Host ")]
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, RuntimeError):
        return None
    return file if any(host in lines for host in hosts) else None
