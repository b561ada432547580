"""`gpuaas`: the table of commands and the way from arguments to an exit code.

Only the command that is called is loaded, so that start-up stays near that of click alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

import click

from reconciler import __version__
from reconciler.cli.arguments.global_options import Options, global_options
from reconciler.cli.exit_codes import Exit
from reconciler.cli.termination import be_ended, end_by_signals

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "init": "Make a new fleet: settings, starter specs, state and key.",
        "validate": "Check spec files and show every problem at its place.",
        "schema": "Print the JSON Schema of a kind.",
        "plan": "Show what would change, where and why.",
        "apply": "Do exactly what a plan shows, after a yes.",
        "approvals": "List what waits for somebody's leave, and what leave was given.",
        "approve": "Give leave for what is held, as it is now.",
        "reconcile": "Keep hosts as git wants them, with nobody watching.",
        "status": "Show the fleet and its allocations.",
        "ssh": "Log in to an allocation with your own keys.",
        "ssh-config": "Print what lets your own ssh reach allocations by name.",
        "show": "Show everything known about one resource.",
        "extend": "Give an allocation more time.",
        "rollback": "Show the change that puts specs back as they stood, and what follows from it.",
        "restart": "Ask for an allocation to be started anew, once.",
        "explain": "Say for every node why it can or cannot take an allocation.",
        "why": "Say why a resource is as it is: commit, author, rule, approver, evidence.",
        "evidence": "Show what a host has shown of an allocation or node, and what was proved.",
        "doctor": "Say what is stuck, overdue or stale, and what to do about it.",
        "runbook": "Say what to do about a problem code or symptom, with its facts of now.",
        "timeline": "Show what became of a resource, phase by phase.",
        "activity": "Show what was done of late, by whom and how it went.",
        "events": "Show who changed what, when and by which commit.",
        "node": "Nodes: list, show, bootstrap, discover, approve, drain, undrain.",
        "slot": "Slots: the parts of nodes that are given out.",
        "proof": "Proofs: what showed that a place was left clean.",
        "cleanup": "Places that could not be proved clean: try again, or vouch for them.",
        "capacity": "Show what is free for each SKU.",
        "storage": "Storage: durable data of projects, who has it, and what is kept of it.",
        "bundle": "Bundles: environments of the platform, where they stand and who uses them.",
        "forget": "Leave an allocation on its host, and do nothing about it any more.",
        "drift": "Show what hosts show otherwise than it was made.",
        "suspend": "Take a node, user or project out of use, now.",
        "resume": "End a suspension.",
        "grant": "See who is let in where, and why.",
        "state": "Make, check, back up, restore and rebuild the state.",
        "features": "Show what this version does, and what it refuses until that is built.",
        "version": "Show the versions of the program and its formats.",
        "completion": "Print the completion script of a shell.",
    }
)
"""Each stands in `commands/` as a module and function of its name; help keeps this order."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "nodes": "node list",
        "drain": "node drain",
        "slots": "slot list",
        "storages": "storage list",
        "bundles": "bundle list",
        "event": "events",
        "grants": "grant list",
    }
)
"""Other words for a command, or for a noun and its verb."""


class NoSuchCommand(click.UsageError):
    """Names the word, so that the boundary can name the nearest command."""

    def __init__(self, name: str, ctx: click.Context) -> None:
        super().__init__(f"there is no command {name!r}", ctx)
        self.command_name = name


class Commands(click.Group):
    """The commands by name, loaded when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in ALIASES:
            return None
        name, *verbs = ALIASES.get(cmd_name, cmd_name).split()
        word = name.replace("-", "_")
        found: click.Command = getattr(import_module(f"reconciler.cli.commands.{word}"), word)
        for verb in verbs:
            found = found.commands[verb]  # type: ignore[attr-defined]
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, *rest = ALIASES[args[0]].split() if args[0] in ALIASES else args[:1]
        if name not in COMMANDS and not name.startswith("-"):
            raise NoSuchCommand(name, ctx)
        return super().resolve_command(ctx, [name, *rest, *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        item = import_module("click.shell_completion").CompletionItem
        named = [item(n, help=h) for n, h in COMMANDS.items() if n.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)


@click.command("gpuaas", cls=Commands, invoke_without_command=True)
@click.version_option(__version__, message="gpuaas %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """GPU allocations on real hosts, from YAML specs in git.

    `gpuaas plan` says what would change and why; `gpuaas apply` does exactly that. A REF is
    kind/project/name, kind/name for what belongs to the fleet, or project/name for an allocation.

    Exit codes: 0 done or nothing to do, 1 error, 2 changes and 4 drift only (both with
    --detailed-exitcode), 3 blocked, 5 held for approval, 64 wrong usage, 130 interrupted; of
    several, the first of 1, 3, 5, 2, 4, 0 counts.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(Exit.USAGE)


cli.params.extend(global_options())


def main(is_ended: Callable[[], bool] = lambda: False) -> NoReturn:
    """`is_ended` says whether somebody has ended this command while it was being loaded."""
    try:
        end_by_signals()
        if is_ended():
            raise KeyboardInterrupt
        code = run(sys.argv[1:])
        be_ended()
    except KeyboardInterrupt as error:
        code = _refuse(error, sys.argv[1:], Options())
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """One command line, from arguments to exit code. Nothing is raised."""
    options = Options()
    try:
        _check_bytes(arguments)
        code: int = cli.main(list(arguments), "gpuaas", standalone_mode=False, obj=options)
        return code
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - the boundary
        return _refuse(error, arguments, options)


def _refuse(error: BaseException, arguments: Sequence[str], options: Options) -> int:
    refused: int = import_module("reconciler.cli.boundary").refuse(error, arguments, options)
    return refused


def _check_bytes(arguments: Sequence[str]) -> None:
    """What is no text here is none in the state, in files and on hosts either."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{word!r} is no UTF-8") from error
