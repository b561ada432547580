"""The one boundary: it turns any error into problems on the right stream, and an exit code."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence

import click

from reconciler.cli import crash
from reconciler.cli.arguments.global_options import Options
from reconciler.cli.command import STOPPED, open_session
from reconciler.cli.exit_codes import Exit, of_problems
from reconciler.cli.screen import Screen, silence
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views.documents import document
from reconciler.model.problem import Problem, ProblemError


def refuse(error: BaseException, arguments: Sequence[str], options: Options) -> int:
    """Show what ended the command; with `-o json` even that is one document."""
    if isinstance(error, SystemExit):
        # So click ends where the reader of its help has gone away.
        return int(Exit.DONE)
    problems = problems_of(error)
    code = of_problems(problems) or Exit.ERROR
    options.format = asked_format(arguments)
    session = open_session(options)
    try:
        if session.wants_document:
            shown = document(options.command or first_word(arguments), code, problems=problems)
            session.screen.document(shown, compact=session.format == "jsonl")
        else:
            session.screen.tell(problems_view.refusal(problems))
    except ProblemError as failed:
        _last_words(session.screen, failed.problems)
    return int(code)


def problems_of(error: BaseException) -> tuple[Problem, ...]:
    """Any error as problems; one that nobody foresaw leaves its traceback in a file."""
    if isinstance(error, ProblemError) and error.problems:
        return error.problems
    if isinstance(error, click.ClickException):
        return (_usage(error),)
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return (STOPPED,)
    if isinstance(error, OSError) and error.filename is not None:
        return (_not_had(error),)
    if isinstance(error, FileNotFoundError) and not _stands_somewhere():
        return (NOWHERE,)
    if isinstance(error, OSError) and _is_of_output(error):
        silence(sys.stdout)
        message = f"the output cannot be written: {error.strerror}"
        return (Problem(code="output_unwritable", message=message),)
    return (crash.report(error),)


NOWHERE = Problem(
    code="os_refused",
    message="the folder that this shell stands in is gone: it was deleted or moved",
    hint="go to one that is there, as with cd, or name the fleet: gpuaas -C DIR",
)


def _stands_somewhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _is_of_output(error: BaseException) -> bool:
    """Whether it came of what click itself writes, which is help alone."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__") == "click.utils"


def _not_had(error: OSError) -> Problem:
    """A file that the operating system refuses, wherever that showed: no defect of ours."""
    return Problem(
        code="os_refused",
        message=f"{error.filename}: {error.strerror}",
        hint="put that right, or name another file or folder",
    )


def asked_format(arguments: Sequence[str]) -> str:
    """The value of `-o` on a command line that may be wrong elsewhere; else `text`."""
    found = "text"
    for number, here in enumerate(arguments):
        if here == "--":
            break
        if here in ("-o", "--output"):
            found = "".join(arguments[number + 1 : number + 2])
        elif here.startswith("--output="):
            found = here.removeprefix("--output=")
        elif here.startswith("-o"):
            found = here.removeprefix("-o")
    return found


def first_word(arguments: Iterable[str]) -> str:
    """Good enough to say what was refused where no command was found."""
    return next((word for word in arguments if not word.startswith("-")), "")


def _usage(error: click.ClickException) -> Problem:
    context: click.Context | None = getattr(error, "ctx", None)
    group = context.command if context else None
    wrong = getattr(error, "command_name", None)
    meant = getattr(error, "meant", "")
    near: Sequence[str] = ()
    if wrong and context and isinstance(group, click.Group):
        near = difflib.get_close_matches(wrong, group.list_commands(context), n=1)
    return Problem(
        code="usage",
        message=error.format_message().rstrip("."),
        hint=(f"did you mean {near[0]}? " if near else "")
        + (f"{meant} " if meant else "")
        + f"see: {context.command_path if context else 'gpuaas'} --help",
    )


def _last_words(screen: Screen, problems: Sequence[Problem]) -> None:
    """Standard output failed; if standard error fails too, the exit code has to say it."""
    try:
        screen.tell(problems_view.refusal(problems))
    except ProblemError:
        return
