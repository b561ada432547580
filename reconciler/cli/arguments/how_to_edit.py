"""`--print` and `--commit` of commands that edit a spec: shown alone, written, or committed too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from reconciler.operations.edit.contract import EditWish

F = TypeVar("F", bound=Callable[..., object])


def how_to_edit(command: F) -> F:
    """The two options, `printed` and `commit`."""
    commit = click.option("--commit", is_flag=True, help="Commit the file, and nothing else.")
    printed = click.option(
        "--print", "printed", is_flag=True, help="Print the change as a patch, and write nothing."
    )
    return printed(commit(command))


def wish_of(*, printed: bool, commit: bool) -> EditWish:
    if printed and commit:
        raise click.UsageError("--print writes nothing that could be committed: give one")
    return EditWish(write=not printed, commit=commit)
