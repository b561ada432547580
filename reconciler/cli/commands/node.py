"""`gpuaas node`: enrol bare hosts as nodes, and show and manage nodes."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from reconciler.cli.arguments.reason import check_reason
from reconciler.cli.arguments.refs import complete_node
from reconciler.cli.arguments.times import as_moment
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.confirm import key_confirmation
from reconciler.cli.fleet import open_fleet
from reconciler.cli.text import line
from reconciler.cli.views import administered
from reconciler.cli.views import approved as approved_view
from reconciler.cli.views import corrected as corrected_view
from reconciler.cli.views import fleet as fleet_view
from reconciler.cli.views import node as node_view
from reconciler.operations.status import status

if TYPE_CHECKING:
    from reconciler.operations.fleet import Fleet

FILE = click.Path(path_type=Path)


@group("node")
def node() -> None:
    """Nodes: list, show, bootstrap, discover, approve, drain, undrain.

    To add a host: bootstrap lets gpuaas log in, discover proposes its spec, approve makes its slots
    available, and the next apply prepares it.
    """


@command("list", "text", "json", parent=node)
def list_nodes(session: Session) -> Reply:
    """List nodes: what they are and when they last answered.

    POSTURE says what may be placed there now, ADMIN what the node's spec says, and SOURCE whether a
    real host answered or a labelled stand-in.
    """
    rows = status.nodes(open_fleet(session.folder))
    return Reply(result=rows, lines=fleet_view.nodes(rows, width=session.screen.width))


@command("show", "text", "json", parent=node)
@click.argument("name", metavar="NODE", shell_complete=complete_node)
def show(session: Session, name: str) -> Reply:
    """Show one node: its approvals, readiness checks and slots.

    Everything is read from specs and state; `gpuaas plan --refresh` asks the host first. A check
    without an answer is unknown, and nothing is placed on an unknown.
    """
    found = import_module("reconciler.operations.node.show").survey(
        open_fleet(session.folder), name.removeprefix("node/")
    )
    return Reply(result=found, lines=node_view.lines(found, width=session.screen.width))


@command("bootstrap", parent=node)
@click.option("--print", "printed", is_flag=True, help="Print the commands; this is the only mode.")
@click.option(
    "--login", default="", help="Control login; by default that of gpuaas.yaml, or gpuaas."
)
@click.option(
    "--key",
    type=FILE,
    metavar="FILE",
    help="Public key of the control login; by default that of gpuaas.yaml.",
)
def bootstrap(session: Session, printed: bool, login: str, key: Path | None) -> Reply:
    """Print the commands that let gpuaas log in to a bare host.

    Paste them into a root shell of a Debian or Ubuntu host; they can be run again at any time. They
    end by printing the host's key and the command to continue with.
    """
    if not printed:
        raise click.UsageError("say --print: the lines are for you to paste, nothing runs them")
    lines = import_module("reconciler.operations.node.bootstrap").bootstrap(
        open_fleet(session.folder), login, key
    )
    return Reply(raw=lines)


class NodeArguments(TypedDict):
    host_keys: tuple[str, ...]
    accept_shown: bool
    name: str
    family: str
    port: int
    user: str
    write: Path | None
    update: bool


NOT_ASKED = frozenset({"write", "update"})
"""What `discover` does with an answer, and does not ask for."""


@command("discover", "yaml", "json", parent=node)
@click.argument("address")
@click.option(
    "--host-key",
    "host_keys",
    metavar="KEY",
    multiple=True,
    help="Public key of the host, or its SHA256 fingerprint; may be repeated.",
)
@click.option(
    "--accept-shown", is_flag=True, help="Accept whatever host key is shown, without checking it."
)
@click.option("--name", default="", help="Name of the node; by default the first label of ADDRESS.")
@click.option("--family", default="", help="NodeFamily; by default the one that has its GPUs.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=22, show_default=True, help="SSH port."
)
@click.option("--user", default="", help="Control login; by default that of gpuaas.yaml.")
@click.option(
    "--write", type=FILE, metavar="FILE", help="Write a new spec file instead of printing."
)
@click.option("--update", is_flag=True, help="ADDRESS names a node: correct the slots in its spec.")
def discover(session: Session, address: str, **given: Unpack[NodeArguments]) -> Reply:
    """Ask a host for its hardware, and print a Node with candidate slots.

    Nothing is changed, and nothing is placed on the host before somebody approves it. A host key
    that neither you nor the specs know is shown and refused; at a terminal you are asked to confirm
    it.

    --update NODE corrects the GPUs, drives and network cards in the node's spec to what its host
    reports now. Approvals of changed parts become invalid, and none is given.
    """
    fleet = open_fleet(session.folder)
    if given["update"]:
        return _update(session, fleet, address, given)
    enrolling = import_module("reconciler.operations.node.enroll")
    known = {option: value for option, value in given.items() if option not in NOT_ASKED}
    target = enrolling.Target(address=address, **known)
    found = enrolling.discover(fleet, target, key_confirmation(session, address))
    session.screen.tell(line(f"note: {note}", hang=6) for note in found.notes)
    if given["write"] is None:
        return Reply(result=found, raw=found.yaml)
    file = enrolling.write(fleet, found, given["write"])
    return Reply(result=found, lines=approved_view.written(found.name, file))


@command("approve", "text", "json", parent=node)
@click.argument("name", metavar="NODE", shell_complete=complete_node)
@click.option(
    "--slot",
    "slots",
    metavar="SLOT",
    multiple=True,
    help="Approve only this slot; may be repeated.",
)
@click.option("--host-only", is_flag=True, help="Approve only the host itself, none of its slots.")
@click.option("--commit", is_flag=True, help="Commit the file, and nothing else.")
def approve(
    session: Session, name: str, slots: tuple[str, ...], host_only: bool, commit: bool
) -> Reply:
    """Approve, as an operator, that a node is what its spec says.

    The approval is written into the node's file. It covers the host and every slot that has no
    approval in force, and becomes invalid when one of them changes. The host is not touched.
    """
    if slots and host_only:
        raise click.UsageError("--slot names slots, --host-only none of them")
    approving = import_module("reconciler.operations.node.approve")
    wish = approving.ApprovalScope(
        node=name.removeprefix("node/"), slots=slots, host_only=host_only, commit=commit
    )
    found = approving.approve(open_fleet(session.folder), wish)
    return Reply(problems=found.problems, result=found, lines=approved_view.lines(found))


class Meant(TypedDict):
    reason: str
    until: datetime | None
    evacuate: bool


@command("drain", "text", "json", parent=node)
@click.argument("name", metavar="NODE", shell_complete=complete_node)
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    callback=check_reason,
    help="Reason, shown wherever the node is listed.",
)
@click.option(
    "--until",
    metavar="TIME",
    callback=as_moment,
    help="When the node should be back, shown with the reason.",
)
@click.option(
    "--evacuate",
    is_flag=True,
    help="Also move its allocations to other nodes; apply asks about each.",
)
@click.option("--commit", is_flag=True, help="Commit the file, and nothing else.")
def drain(session: Session, name: str, commit: bool, **given: Unpack[Meant]) -> Reply:
    """Place nobody new on a node; its allocations stay.

    This is what Kubernetes calls cordon. It is written into the node's file and takes effect when
    that is applied. To stop placements at once, without a file: gpuaas suspend node/NAME.
    """
    draining = import_module("reconciler.operations.node.drain")
    intent = draining.Intent(name=name, **given)
    found = draining.drain(open_fleet(session.folder), intent, commit=commit)
    return Reply(result=found, lines=administered.lines(found))


@command("undrain", "text", "json", parent=node)
@click.argument("name", metavar="NODE", shell_complete=complete_node)
@click.option("--commit", is_flag=True, help="Commit the file, and nothing else.")
def undrain(session: Session, name: str, commit: bool) -> Reply:
    """Let a drained node take allocations again.

    It is written into the node's file and takes effect when that is applied.
    """
    draining = import_module("reconciler.operations.node.drain")
    found = draining.undrain(open_fleet(session.folder), name, commit=commit)
    return Reply(result=found, lines=administered.lines(found))


@command("retry", "text", "json", parent=node)
@click.argument("name", metavar="NODE", shell_complete=complete_node)
def retry(session: Session, name: str) -> Reply:
    """Clear the failures counted against a node.

    A host's failures count against it, and other nodes are preferred. The count ends with time,
    with a success, and when the node's document or what it reports changes. Use this after a repair
    that gpuaas cannot see. No host is asked.
    """
    found = import_module("reconciler.operations.node.retry").retry(
        open_fleet(session.folder), name.removeprefix("node/")
    )
    return Reply(result=found, lines=administered.cleared(found))


def _update(session: Session, fleet: Fleet, name: str, given: NodeArguments) -> Reply:
    """Everything but the address comes from the spec of the node."""
    more = given["host_keys"] or given["accept_shown"] or given["write"] or given["port"] != 22
    if more or given["name"] or given["family"] or given["user"]:
        raise click.UsageError("--update goes by the node's own spec, and by nothing else")
    correcting = import_module("reconciler.operations.node.correct")
    found = correcting.ask_and_correct(fleet, name.removeprefix("node/"))
    session.screen.tell(line(f"note: {note}", hang=6) for note in found.notes)
    return Reply(result=found, lines=corrected_view.lines(found))
