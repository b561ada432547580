"""REF and NODE arguments: an invalid ref is refused at once, and nodes are completed by name."""

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
            raise NoRef(
                f"{text!r} is no ref: write kind/project/name, kind/name, or project/name for an"
                f" allocation; kinds are {', '.join(KIND_WORDS.values())}",
                _meant(ctx, text),
            )
    return value


class NoRef(click.BadParameter):
    """`meant` asks for what it probably stands for; it is empty where nobody can say."""

    def __init__(self, message: str, meant: str) -> None:
        super().__init__(message)
        self.meant = meant


def _meant(ctx: click.Context, text: str) -> str:
    """What was probably meant, of what exists; unreadable specs are no reason to fail twice."""
    folder = getattr(ctx.obj, "folder", "")
    try:
        fleet = open_fleet(Path(folder) if folder else None)
        meant: str = import_module("reconciler.operations.references").meant(fleet, text)
    except (ProblemError, OSError):
        return ""
    return meant


def check_removals(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """The same for removals that no commit made, of which one word names all."""
    check_ref(ctx, param, tuple(text for text in value if text != ALL_REMOVALS))
    return tuple(value)


ALL_REMOVALS = "all"


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The nodes in the specs; none where these cannot be read: a shell has no place to say so."""
    folder = getattr(ctx.obj, "folder", "")
    try:
        fleet = open_fleet(Path(folder) if folder else None)
        names = import_module("reconciler.operations.node.show").node_names(fleet)
    except ProblemError:
        return []
    return [name for name in names if name.startswith(incomplete)]
