"""`gpuaas extend`."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.arguments.times import as_duration, as_moment
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import edited
from reconciler.operations.allocation.extend import Extended, Extension
from reconciler.operations.allocation.extend import extend as write_end


@command("extend", "text", "json")
@click.argument("ref", callback=check_ref)
@click.option("--by", callback=as_duration, metavar="TIME", help="Time to add, such as 24h or 7d.")
@click.option("--until", callback=as_moment, metavar="TIME", help="The new end.")
@click.option("--commit", is_flag=True, help="Commit the file, and nothing else.")
def extend(
    session: Session, ref: str, by: timedelta | None, until: datetime | None, commit: bool
) -> Reply:
    """Give an allocation more time.

    A later end is written into the allocation's file and takes effect when that is applied. Without
    --by or --until, the default lease of the project is added, up to the longest lifetime allowed.
    """
    if by and until:
        raise click.UsageError("--by and --until say the same thing in two ways: give one")
    wish = Extension(until=until, by=by)
    found = write_end(open_fleet(session.folder), ref, wish, commit=commit)
    shown = edited.lines(
        "extend",
        f"{found.ref} is to live until {found.until}",
        _rows(found),
        f"Extend {found.ref} until {found.until}",
    )
    return Reply(result=found, lines=shown)


def _rows(found: Extended) -> dict[str, str]:
    rows = {"was": found.before or "without an end", "latest": found.latest}
    rows["written"] = f"{found.file}:{found.line}"
    return {**rows, "commit": found.commit} if found.commit else rows
