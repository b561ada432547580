"""REF and NODE arguments: what can be none is refused at once; nodes are completed by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TypeVar

import click

from reconciler.cli.fleet import open_fleet
from reconciler.model.problem import ProblemError
from reconciler.model.ref import KIND_WORDS, parse_ref

T = TypeVar("T", None, str, tuple[str, ...])


def check_ref(ctx: click.Context, param: click.Parameter, value: T) -> T:
    """A click callback; refs are handed on as they were written."""
    texts: tuple[str, ...] = (value,) if isinstance(value, str) else value or ()
    for text in texts:
        if parse_ref(text) is None:
            raise click.BadParameter(
                f"{text!r} is no ref: write kind/project/name, kind/name, or project/name for an"
                f" allocation; kinds are {', '.join(KIND_WORDS.values())}"
            )
    return value


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The nodes in the specs; none where these cannot be read: a shell has no place to say so."""
    folder = getattr(ctx.obj, "folder", "")
    try:
        fleet = open_fleet(Path(folder) if folder else None)
        names = import_module("reconciler.operations.surveying").node_names(fleet)
    except ProblemError:
        return []
    return [name for name in names if name.startswith(incomplete)]
