"""`gpuaas bundle`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from reconciler.cli.arguments.how_to_edit import how_to_edit, wish_of
from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.edited import answered as edited
from reconciler.cli.fleet import open_fleet
from reconciler.cli.text import line
from reconciler.cli.views import bundle as bundle_view
from reconciler.operations.bundle import bundle as bundle_operation
from reconciler.operations.bundle import catalogue
from reconciler.operations.bundle import mirror as mirror_operation

FOLDER = click.Path(path_type=Path, file_okay=False)


@group("bundle")
def bundle() -> None:
    """Bundles: software environments, where they are installed and who uses them.

    Allocations name their bundles in spec.runtimes; a bundle's stageOn says where a version is
    installed before anybody asks for it. A plan shows what it would build, repair or remove.
    """


@command("list", "text", "json", parent=bundle)
def list_bundles(session: Session) -> Reply:
    """List bundles: versions, what they run on, where they are installed, who uses them.

    Bundles that ship with gpuaas and that the fleet does not have follow; `add` adds them. STATE
    `gone` is a version that the bundle no longer has but that nodes still have installed.
    """
    found = catalogue.catalogue(open_fleet(session.folder))
    return Reply(result=found, lines=bundle_view.rows(found, width=session.screen.width))


@command("show", "text", "json", parent=bundle)
@click.argument("name", metavar="NAME[@VERSION]")
def show(session: Session, name: str) -> Reply:
    """Show one bundle: its versions, what each is made from, and its state on each node.

    What is recorded and what a host shows are side by side. `gpuaas timeline bundle/NAME` shows its
    events.
    """
    found = bundle_operation.show_bundle(open_fleet(session.folder), name)
    return Reply(result=found, lines=bundle_view.lines(found, width=session.screen.width))


@command("add", "text", "json", parent=bundle)
@click.argument("name")
@click.option(
    "--index",
    default="",
    metavar="NAME",
    help="Name of the index, in gpuaas.yaml, that the wheels come from.",
)
@click.option(
    "--write",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write the document to.",
)
@click.option("--commit", is_flag=True, help="Commit what is written, and nothing else.")
def add(session: Session, name: str, index: str, file: Path | None, commit: bool) -> Reply:
    """Add a bundle that ships with gpuaas to the fleet, or its newer versions.

    Its document is written into the specs, and the requirements of each version, with their hashes,
    into bundles/. From then on they belong to the fleet. Versions that the fleet already has stay
    as they are.
    """
    wish = catalogue.BundleWish(file=file, index=index, commit=commit)
    found = catalogue.add_bundle(open_fleet(session.folder), name, wish)
    return Reply(result=found, lines=bundle_view.added(found))


@command("use", "text", "json", parent=bundle)
@click.argument("name", metavar="NAME[@VERSION]")
@click.option(
    "--in", "allocation", required=True, metavar="ALLOCATION", callback=check_ref, help="Where."
)
@how_to_edit
def use(session: Session, name: str, allocation: str, printed: bool, commit: bool) -> Reply:
    """Make a bundle ready in an allocation, or change its version there.

    The newest version that runs on its nodes is taken unless one is named. It is written into the
    allocation's file and takes effect when that is applied; its name, its login and its data stay.
    """
    how = wish_of(printed=printed, commit=commit)
    using = import_module("reconciler.operations.edit.runtime")
    found = using.use_runtime(open_fleet(session.folder), name, allocation, how)
    return edited(session, found, how)


@command("drop", "text", "json", parent=bundle)
@click.argument("name", metavar="NAME[@VERSION]")
@click.option(
    "--in", "allocation", required=True, metavar="ALLOCATION", callback=check_ref, help="Where."
)
@how_to_edit
def drop(session: Session, name: str, allocation: str, printed: bool, commit: bool) -> Reply:
    """Take a bundle out of an allocation; it stays installed on nodes.

    It is taken out of the allocation's file and takes effect when that is applied.
    """
    how = wish_of(printed=printed, commit=commit)
    using = import_module("reconciler.operations.edit.runtime")
    found = using.drop_runtime(open_fleet(session.folder), name, allocation, how)
    return edited(session, found, how)


@command("mirror", "text", "json", parent=bundle)
@click.argument("name", metavar="NAME[@VERSION]")
@click.option("--to", required=True, type=FOLDER, metavar="DIR", help="Folder for the wheels.")
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="NAME|URL",
    help="Index to download from, by its name in gpuaas.yaml or its URL; may be repeated.",
)
def mirror(session: Session, name: str, to: Path, indexes: tuple[str, ...]) -> Reply:
    """Download the wheels of a bundle into a folder, for hosts that reach no index.

    Only wheels with the agreed hashes are taken. One folder can hold the wheels of several bundles,
    and wheels that are there are not downloaded again. No host is asked or changed.
    """

    def tell(what: str) -> None:
        session.screen.tell([line(f"fetching {what}")])

    wish = mirror_operation.MirrorWish(to=to, indexes=indexes, tell=tell)
    found = mirror_operation.mirror(open_fleet(session.folder), name, wish)
    return Reply(result=found, lines=bundle_view.mirrored(found))
