"""`gpuaas edit`: a value by its path, or the whole file in the editor of its person."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click

from reconciler.cli.arguments.how_to_edit import how_to_edit, wish_of
from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.edited import answered
from reconciler.cli.fleet import open_fleet
from reconciler.cli.termination import keys_left_to_another
from reconciler.cli.text import BLANK, line
from reconciler.cli.views import problems as problems_view
from reconciler.model.problem import ProblemError, refuse
from reconciler.operations.edit.contract import EditWish, SpecEdit
from reconciler.operations.edit.edit import OpenSpec, begin, finish
from reconciler.operations.edit.set_value import set_values
from reconciler.operations.fleet import Fleet


@command("edit", "text", "json")
@click.argument("ref", callback=check_ref)
@click.option(
    "--set",
    "settings",
    metavar="PATH=VALUE",
    multiple=True,
    help="Set the value at this path, such as spec.sizeGiB=200; may be repeated.",
)
@how_to_edit
def edit(
    session: Session, ref: str, settings: tuple[str, ...], printed: bool, commit: bool
) -> Reply:
    """Change a spec in place, by a value or in an editor; comments stay.

    With --set, the value is put where it belongs, and every other character of the file stays. A
    PATH leads through the document: spec.storage[0].mode, or spec.storage[NAME].mode. Without
    --set, the file is opened in $VISUAL or $EDITOR. The result is checked with the whole fleet
    around it before it replaces the file, and nothing is replaced that somebody else has changed
    meanwhile. No host and no state is touched.
    """
    fleet, wish = open_fleet(session.folder), wish_of(printed=printed, commit=commit)
    if settings:
        return answered(session, set_values(fleet, ref, settings, wish), wish)
    if not session.screen.can_converse or session.wants_document:
        raise click.UsageError("an editor needs a terminal: without one, give --set PATH=VALUE")
    return answered(session, _edited(session, fleet, begin(fleet, ref), wish), wish)


edit.writes = True


def _edited(session: Session, fleet: Fleet, opened: OpenSpec, wish: EditWish) -> SpecEdit:
    """What somebody makes of the file, once it is sound. What they wrote is never lost: if it
    cannot take its place, it stays where it is, and that is told.
    """
    place = Path(tempfile.mkdtemp(prefix="gpuaas-edit-"))
    copy, kept, is_open = place / os.path.basename(opened.file), False, False
    try:
        copy.write_bytes(opened.content)
        while True:
            is_open = True
            with keys_left_to_another():
                _open(copy)
            is_open, after = False, copy.read_bytes()
            try:
                found = finish(fleet, opened, after, f"Edit {opened.ref}", wish)
                kept = False
                return found
            except ProblemError as error:
                kept = after != opened.content
                _ask_again(session, error, copy)
    except BaseException as error:
        # An editor that outlives this command has yet to write what its person has typed.
        outlived = is_open and isinstance(error, KeyboardInterrupt)
        kept = kept or outlived or (copy.exists() and copy.read_bytes() != opened.content)
        if kept:
            session.screen.tell([line(f"what you wrote is in {copy}", hang=2)])
        raise
    finally:
        if not kept:
            shutil.rmtree(place, ignore_errors=True)


def _open(copy: Path) -> None:
    """VISUAL and EDITOR are its person's own words, asked for as git asks for them."""
    try:
        click.edit(filename=str(copy))
    except ValueError as error:
        raise click.ClickException(f"$VISUAL or $EDITOR names no command: {error}") from error


def _ask_again(session: Session, error: ProblemError, copy: Path) -> None:
    """Go on if somebody wants to put it right. Raises the error again if not."""
    if any(one.code in ("file_changed", "commit_failed") for one in error.problems):
        raise error
    screen = session.screen
    screen.tell([*problems_view.refusal(error.problems), BLANK])
    try:
        said = screen.answer(line("Edit it again? [yes/no]"))
    except EOFError:
        said = ""
    if said.lower() not in ("y", "yes"):
        raise refuse(
            "declined", f"the file was not changed; what you wrote is in {copy}"
        ) from error
