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
        "new": "Write a new spec, step by step: an allocation, a storage, a grant and more.",
        "edit": "Change a spec in place, by a value or in an editor; comments stay.",
        "validate": "Check spec files and show every problem with its file and line.",
        "schema": "Print the JSON Schema of a kind.",
        "plan": "Show what would change, where and why.",
        "apply": "Carry out exactly what a plan shows, after a yes.",
        "approvals": "List changes that wait for approval, and approvals in force.",
        "approve": "Approve held changes as they are now.",
        "reconcile": "Keep hosts as git wants them, unattended.",
        "status": "Show the fleet and its allocations.",
        "ssh": "Log in to an allocation with your own keys.",
        "ssh-config": "Print an ssh configuration that reaches allocations by name.",
        "show": "Show everything known about one resource.",
        "extend": "Give an allocation more time.",
        "rollback": "Show the change that restores specs as they were, and the plan that follows.",
        "restart": "Ask for one restart of an allocation.",
        "explain": "Say for every node why it can or cannot take an allocation.",
        "why": "Say why a resource is as it is: commit, author, rule, approver, evidence.",
        "evidence": "Show what a host reported about an allocation or node, and what was proved.",
        "doctor": "Say what is stuck, overdue or stale, and what to do about it.",
        "runbook": "Say what to do about a problem code or symptom, with the facts of this fleet.",
        "timeline": "Show what happened to a resource, phase by phase.",
        "activity": "Show recent operations: who did what, and how it went.",
        "events": "Show who changed what, when and by which commit.",
        "node": "Nodes: list, show, bootstrap, discover, approve, drain, undrain.",
        "slot": "Slots: the parts of nodes that allocations get.",
        "proof": "Proofs: the evidence that a slot or node was cleaned.",
        "cleanup": "Slots that could not be proved clean: try again, or override the proof.",
        "capacity": "Show what is free for each SKU.",
        "storage": "Storage: durable data of projects, where it is attached, and what is kept.",
        "bundle": "Bundles: software environments, where they are installed and who uses them.",
        "forget": "Stop managing an allocation; its host is not touched.",
        "drift": "Show where hosts differ from what was applied.",
        "suspend": "Take a node, user or project out of use, now.",
        "resume": "End a suspension.",
        "grant": "Show who has access to which allocations, and why.",
        "state": "Make, check, back up, restore and rebuild the state.",
        "features": "Show what this version can do, and what it does not support yet.",
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
    """A command that does not exist; its name lets the boundary suggest the nearest one."""

    def __init__(self, name: str, ctx: click.Context) -> None:
        super().__init__(f"there is no command {name!r}", ctx)
        self.command_name = name


class Commands(click.Group):
    """The commands by name, each loaded when it is called."""

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

    `gpuaas plan` shows what would change and why; `gpuaas apply` does exactly that. A REF is
    kind/project/name, kind/name for fleet-wide resources, or project/name for an allocation.

    Exit codes: 0 done or nothing to do, 1 error, 2 changes and 4 drift only (both with
    --detailed-exitcode), 3 blocked, 5 held for approval, 64 wrong usage, 130 interrupted; of
    several, the first of 1, 3, 5, 2, 4, 0 counts.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(Exit.USAGE)


cli.params.extend(global_options())


def main(is_ended: Callable[[], bool] = lambda: False) -> NoReturn:
    """Run gpuaas; `is_ended` says whether it was interrupted while it was being loaded."""
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
    """Run one command line, from arguments to exit code. Nothing is raised."""
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
    """Refuse arguments that are no text: they would be none in the state, in files and on hosts."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{word!r} is no UTF-8") from error
