"""The REF argument: refused at once, with what it should look like, if it can be none."""

from __future__ import annotations

from typing import TypeVar

import click

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
