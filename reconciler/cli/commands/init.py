"""`gpuaas init`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.text import BLANK, Line, Span, Style, line, strong
from reconciler.operations import initializing
from reconciler.operations.initializing import Initialized


@command("init", "text", "json")
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
def init(session: Session, folder: Path | None) -> Reply:
    """Make a new fleet in DIR: settings, starter specs, state and key.

    Nothing that exists is overwritten. In a folder that already holds a gpuaas.yaml, a clone for
    example, only the state and the key that signs host descriptors are made.
    """
    made = initializing.init(folder or session.folder or Path.cwd())
    return Reply(result=made, lines=_lines(made))


def _lines(made: Initialized) -> Iterator[Line]:
    for name in made.files:
        yield line(Span("+ made ", Style.GOOD), name)
    if not made.files:
        yield line("nothing to make: everything is there")
    yield BLANK
    yield line(f"fleet in {made.folder}, state {made.state_id}")
    yield line("next: ", strong("gpuaas plan"))
