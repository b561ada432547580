"""`gpuaas bundle`."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.fleet import open_fleet
from reconciler.cli.text import line
from reconciler.cli.views import bundle as bundle_view
from reconciler.operations.bundle import bundle as bundle_operation
from reconciler.operations.bundle import catalogue
from reconciler.operations.bundle import mirror as mirror_operation

FOLDER = click.Path(path_type=Path, file_okay=False)


@group("bundle")
def bundle() -> None:
    """Bundles: environments of the platform, where they stand and who uses them.

    What an allocation runs stands in its spec.runtimes; where a version is staged before anybody
    asks for it, in the stageOn of its bundle. A plan shows what it would build, repair or discard.
    """


@command("list", "text", "json", parent=bundle)
def list_bundles(session: Session) -> Reply:
    """List bundles: their versions, what they run on, where they stand, and who uses them.

    Then those that travel with the program and that the fleet has not, which `add` puts into it.
    STATE `gone` is a version that its bundle does not have any more, and that nodes still have.
    """
    found = catalogue.catalogue(open_fleet(session.folder))
    return Reply(result=found, lines=bundle_view.rows(found, width=session.screen.width))


@command("show", "text", "json", parent=bundle)
@click.argument("name", metavar="NAME[@VERSION]")
def show(session: Session, name: str) -> Reply:
    """Show one bundle: each version, what it is made from, and how it stands on each node.

    What is recorded and what a host shows stand beside each other. Its events: gpuaas timeline
    bundle/NAME.
    """
    found = bundle_operation.show_bundle(open_fleet(session.folder), name)
    return Reply(result=found, lines=bundle_view.lines(found, width=session.screen.width))


@command("add", "text", "json", parent=bundle)
@click.argument("name")
@click.option("--index", default="", metavar="NAME", help="The index in gpuaas.yaml it is from.")
@click.option("--write", "file", type=click.Path(path_type=Path), metavar="FILE", help="Where to.")
@click.option("--commit", is_flag=True, help="Commit what is written, and nothing else.")
def add(session: Session, name: str, index: str, file: Path | None, commit: bool) -> Reply:
    """Add a bundle that travels with the program to the fleet, or its newer versions.

    Its document is written into the specs, the requirements of each version with their hashes into
    bundles/; from then on they are the fleet's own. A version that the fleet has stays as it is.
    """
    wish = catalogue.BundleWish(file=file, index=index, commit=commit)
    found = catalogue.add_bundle(open_fleet(session.folder), name, wish)
    return Reply(result=found, lines=bundle_view.added(found))


@command("mirror", "text", "json", parent=bundle)
@click.argument("name", metavar="NAME[@VERSION]")
@click.option("--to", required=True, type=FOLDER, metavar="DIR", help="The folder for wheels.")
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="NAME|URL",
    help="Fetch from this one, of gpuaas.yaml or anywhere; may be given more than once.",
)
def mirror(session: Session, name: str, to: Path, indexes: tuple[str, ...]) -> Reply:
    """Fetch the wheels of a bundle into a folder, for hosts that reach no index.

    By the hashes that were agreed: what is not one of them is not taken. Wheels of several bundles
    may lie in one folder, and what is there is not fetched again. No host is asked or changed.
    """

    def tell(what: str) -> None:
        session.screen.tell([line(f"fetching {what}")])

    wish = mirror_operation.MirrorWish(to=to, indexes=indexes, tell=tell)
    found = mirror_operation.mirror(open_fleet(session.folder), name, wish)
    return Reply(result=found, lines=bundle_view.mirrored(found))
