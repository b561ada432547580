"""`gpuaas init`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.text import BLANK, Span, Style, TextLine, line, strong
from reconciler.operations.state import init as init_operation
from reconciler.operations.state.init import Initialized

MANY = 8
"""From so many files on, a folder is one line."""


@command("init", "text", "json")
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
def init(session: Session, folder: Path | None) -> Reply:
    """Make a new fleet: settings, starter specs, state and key.

    The fleet is made in DIR, or in the working folder. Nothing that exists is overwritten: in a
    folder that already holds a gpuaas.yaml (a clone, for example) only the missing parts are made:
    the state, the key that signs host descriptors, and the folder of the starter's practice node.
    """
    made = init_operation.init(folder or session.folder or Path.cwd())
    return Reply(result=made, lines=_lines(made))


def _lines(made: Initialized) -> Iterator[TextLine]:
    for top, files in groupby(made.files, key=lambda name: name.partition("/")[0]):
        names = list(files)
        shown = names if len(names) < MANY else [f"{top}/ ({len(names)} files)"]
        yield from (line(Span("+ made ", Style.GOOD), name) for name in shown)
    if not made.files:
        yield line("nothing to make: everything is there")
    yield BLANK
    yield line(f"fleet in {made.folder}, state {made.state_id}")
    yield line("next: ", strong("gpuaas plan --refresh"), "   asks the hosts, then plans")
