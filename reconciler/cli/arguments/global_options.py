"""Options that every command has; loaded at each start, so it imports click and nothing else."""

from __future__ import annotations

import click


class Options:
    """What the command line said beside the command's own options.

    `command` is empty until one was found, `format` is that of `-o`.
    """

    __slots__ = ("color", "command", "folder", "format")

    def __init__(self) -> None:
        self.color = True
        self.command = ""
        self.folder = ""
        self.format = "text"


def global_options(*, hidden: bool = False) -> list[click.Parameter]:
    """Options that may stand before the command or after it; help shows them once."""
    return [
        click.Option(
            ["-C", "--fleet"],
            metavar="DIR",
            is_eager=True,
            expose_value=False,
            callback=_set_folder,
            hidden=hidden,
            help="Folder of the fleet; by default the nearest one upwards with a gpuaas.yaml.",
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            expose_value=False,
            callback=_set_color,
            hidden=hidden,
            help="No colours; every symbol has a word beside it. NO_COLOR does the same.",
        ),
    ]


def format_option(*names: str) -> click.Option:
    """`-o`: the form of the answer, the first of `names` unless stated."""
    return click.Option(
        ["-o", "--output"],
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        expose_value=False,
        callback=_set_format,
        help="Format of standard output; json is exactly one document.",
    )


def _set_folder(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if isinstance(ctx.obj, Options) and value:
        ctx.obj.folder = value


def _set_color(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if isinstance(ctx.obj, Options) and value:
        ctx.obj.color = False


def _set_format(ctx: click.Context, param: click.Parameter, value: str) -> None:
    if isinstance(ctx.obj, Options):
        ctx.obj.format = value
