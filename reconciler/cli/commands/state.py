"""`gpuaas state`: the few commands that touch the database as a file."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.exit_codes import of_problems
from reconciler.cli.patience import lock_timeout, open_to_write
from reconciler.cli.text import Span, Style, line
from reconciler.cli.views import problems as problems_view
from reconciler.operations import keeping

FILE = click.Path(path_type=Path)


@group("state")
def state() -> None:
    """Make, check, back up and restore the state.

    The state is what gpuaas has applied and who holds which slot. It is not made up again from
    specs or hosts: back it up.
    """


@command("init", "text", "json", parent=state)
@click.option("--new", is_flag=True, help="Yes, there never was a state of this fleet.")
def init(session: Session, new: bool) -> Reply:
    """Make a new, empty state.

    Refused where anything stands already.
    """
    state_id = keeping.state_init(session.folder, new)
    return Reply(result={"stateId": state_id}, lines=[line(f"made state {state_id}")])


@command("check", "text", "json", parent=state)
def check(session: Session) -> Reply:
    """Check database, guards and chain of events.

    Nothing is changed.
    """
    problems = keeping.state_check(session.folder)
    sound = [line(Span("the state is sound", Style.GOOD))]
    return Reply(
        code=of_problems(problems),
        problems=problems,
        result={"sound": not problems},
        lines=problems_view.refusal(problems) if problems else sound,
    )


@command("backup", "text", "json", parent=state)
@click.argument("file", type=FILE)
def backup(session: Session, file: Path) -> Reply:
    """Write a complete copy to FILE.

    FILE must not exist; others may go on working.
    """
    keeping.state_backup(session.folder, file)
    return Reply(result={"file": str(file)}, lines=[line(f"copied the state to {file}")])


@command("restore", "text", "json", parent=state)
@click.argument("file", type=FILE)
@lock_timeout
def restore(session: Session, file: Path, lock_timeout: float) -> Reply:
    """Put the copy in FILE in place of the state.

    What was there is kept beside it.
    """
    kept = keeping.state_restore(open_to_write(session, lock_timeout), file)
    told = [line(f"restored the state from {file}")]
    if kept is not None:
        told.append(line(f"the state before it is kept in {kept}"))
    return Reply(result={"file": str(file), "kept": str(kept) if kept else ""}, lines=told)


@command("unlock", "text", "json", parent=state)
@click.argument("lock_id", required=False, default="", metavar="[ID]")
def unlock(session: Session, lock_id: str) -> Reply:
    """Forget the lock of a process that is gone.

    There is no need to: the next command that writes takes such a lock over by itself. The lock of
    a process that lives is never taken away. With ID, the one that the refused command has shown,
    nothing is done if the lock is somebody else's by now.
    """
    holder = keeping.state_unlock(session.folder, lock_id)
    return Reply(result={"holder": holder}, lines=[line(f"took the lock away from {holder}")])
