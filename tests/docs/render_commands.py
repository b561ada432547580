"""`python -m tests.docs.render_commands` writes docs/reference/commands.md from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli.exit_codes import MEANING, Exit
from reconciler.cli.main import ALIASES, COMMANDS, cli

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"

HEAD = """# Commands

Made from the commands themselves by `python -m tests.docs.render_commands`; a test keeps it
current. `gpuaas COMMAND --help` says the same.
"""


def render() -> str:
    context = click.Context(cli, info_name="gpuaas")
    parts = [HEAD, *_global_options(context), *_exit_codes()]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts += _command(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(parts).rstrip() + "\n"


def _global_options(context: click.Context) -> Iterator[str]:
    yield "Before or after every command:\n"
    yield from _options(context)


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "If several apply, the first of 1, 3, 5, 2, 4, 0 counts.\n"
    yield "| code | meaning |"
    yield "|---|---|"
    for code in sorted(Exit):
        yield f"| {int(code)} | {MEANING[code]} |"
    yield ""


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    path = context.command_path.removeprefix("gpuaas ")
    if names := [alias for alias, words in ALIASES.items() if words == path]:
        yield f"Also: {', '.join(f'`gpuaas {name}`' for name in names)}.\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    yield from _options(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            below = click.Context(inner, info_name=name, parent=context)
            yield from (
                f"#{part}" if part.startswith("## ") else part for part in _command(inner, below)
            )


def _options(context: click.Context) -> Iterator[str]:
    records = [
        record
        for parameter in context.command.get_params(context)
        if isinstance(parameter, click.Option)
        and (record := parameter.get_help_record(context)) is not None
        and "--help" not in record[0]
    ]
    if records:
        yield "| option | meaning |"
        yield "|---|---|"
        for names, meaning in records:
            yield f"| `{names.replace('|', '&#124;')}` | {meaning.replace('|', '&#124;')} |"
        yield ""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
