"""What every command has in common: it gets a Session, returns a Reply, and is shown one way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import click

from reconciler.cli.arguments.global_options import Options, format_option, global_options
from reconciler.cli.exit_codes import Exit
from reconciler.cli.screen import Screen
from reconciler.cli.text import BLANK, TextLine
from reconciler.cli.views.documents import document
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.records import dataclass

STOPPED = Problem(code="interrupted", message="stopped on request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Where a command works and on which screen; `folder` is None unless it was stated."""

    screen: Screen
    folder: Path | None
    format: str

    @property
    def wants_document(self) -> bool:
        return self.format in ("json", "jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A command's answer.

    `lines` are its text and may be lazy; `result` is its JSON form, encoded only if it is asked
    for. `raw` is shown instead of lines where it is given; `silent` says that the command has shown
    its answer already.
    """

    code: Exit = Exit.DONE
    lines: Iterable[TextLine] = ()
    result: object = None
    problems: tuple[Problem, ...] = ()
    raw: str = ""
    silent: bool = False


class Command(click.Command):
    """A click command whose function takes a Session first and returns a Reply.

    `bare` holds options that may stand without a value, and what they mean then; their value
    always needs a sign (`--option=value`), so that they never swallow an argument. One that
    `writes` has done what it says by the time it answers.
    """

    bare: Mapping[str, str] = MappingProxyType({})
    writes = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        stated = [f"{arg}={self.bare[arg]}" if arg in self.bare else arg for arg in args]
        return super().parse_args(ctx, stated)

    def invoke(self, ctx: click.Context) -> int:
        ctx.obj.command = ctx.command_path.removeprefix("gpuaas ")
        session = open_session(ctx.obj)
        try:
            return self._answer(ctx, session)
        except KeyboardInterrupt as error:
            # click itself would write to a terminal that may be gone.
            session.screen.tell([BLANK] if session.screen.is_live else ())
            raise ProblemError((STOPPED,)) from error

    def _answer(self, ctx: click.Context, session: Session) -> int:
        reply: Reply = ctx.invoke(self.callback, session, **ctx.params)  # type: ignore[arg-type]
        try:
            self._show(ctx, session, reply)
        except KeyboardInterrupt:
            if not self.writes:
                raise
            # It is done and on record; that nobody reads of it any more changes nothing.
        return int(reply.code)

    def _show(self, ctx: click.Context, session: Session, reply: Reply) -> None:
        if reply.silent:
            return
        if session.wants_document:
            shown = document(
                ctx.obj.command, reply.code, problems=reply.problems, result=reply.result
            )
            session.screen.document(shown, compact=session.format == "jsonl")
        elif reply.raw:
            session.screen.raw(reply.raw)
        else:
            session.screen.show(reply.lines)


def open_session(options: Options) -> Session:
    return Session(
        screen=Screen(color=options.color),
        folder=Path(options.folder) if options.folder else None,
        format=options.format,
    )


def command(
    name: str, *formats: str, parent: click.Group | None = None
) -> Callable[[Callable[..., Reply]], Command]:
    """The decorator of a command's function; `formats` are the choices of its `-o`."""

    def decorate(function: Callable[..., Reply]) -> Command:
        made = click.command(name, cls=Command)(function)
        if formats:
            made.params.append(format_option(*formats))
        made.params.extend(global_options(hidden=True))
        if parent is not None:
            parent.add_command(made)
        return made

    return decorate


def group(name: str) -> Callable[[Callable[[], None]], click.Group]:
    """The decorator of a noun, whose function is its help; alone it shows that."""

    def decorate(function: Callable[[], None]) -> click.Group:
        @click.pass_context
        def alone(ctx: click.Context) -> None:
            if ctx.invoked_subcommand is None:
                click.echo(ctx.get_help())
                ctx.exit(Exit.USAGE)

        return click.group(name, invoke_without_command=True, help=function.__doc__)(alone)

    return decorate
