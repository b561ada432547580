"""`gpuaas status`."""

from __future__ import annotations

from importlib import import_module
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.lock_timeout import as_seconds
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, open_fleet
from reconciler.cli.views import pages
from reconciler.operations.fleet import Fleet
from reconciler.operations.status.pages import Page, page_key, recall_page


class StatusArguments(TypedDict):
    project: str
    mine: bool
    stale: float
    state_only: bool
    source: str
    gpu: bool
    all_: bool


@command("status", "text", "json")
@click.option("--project", default="", metavar="NAME", help="Only this project's allocations.")
@click.option(
    "--mine", is_flag=True, help="Only what you own or have access to, and how to get in."
)
@click.option(
    "--stale",
    default="0s",
    metavar="DURATION",
    callback=as_seconds,
    help="Only those whose host has not answered for so long, as in 10m.",
)
@click.option("--all", "all_", is_flag=True, help="Each allocation, however many there are.")
@click.option(
    "--state-only", is_flag=True, help="Without a plan of now: quick, however large the fleet."
)
@click.option("--gpu", is_flag=True, help="Only cards: how busy, and how much memory is in use.")
@from_option
def status(session: Session, **given: Unpack[StatusArguments]) -> Reply:
    """Show the fleet and its allocations.

    What is there and free, what needs you, what is suspended, and each allocation: SYNC is how far
    it is or how a plan of now stands to it, GPU% how busy its cards were. Of more than twenty
    allocations those are shown that somebody should look at, and the first; --all shows each, and
    JSON has them all. No host is asked; the age of what hosts last said is shown. With --from it is
    read from what is published, which tells of allocations alone. With --gpu it is a table of the
    cards that allocations have, as their hosts last told.
    """
    key = ""
    if not (session.wants_document or any(given.values())):
        # The page at which most look most often, and which is therefore kept.
        fleet = open_fleet(session.folder)
        key = page_key(fleet, f"status {session.screen.width}")
        if key and (page := recall_page(fleet, key)):
            return _recalled(page, fleet)
    return _made(session, given, key)


def _recalled(page: Page, fleet: Fleet) -> Reply:
    observed = page.value["observed"]
    age = None if observed is None else observed + page.age
    foot = pages.foot(age, loop=_loop(fleet))
    return Reply(lines=(*pages.shown(page.value["lines"]), foot))


def _loop(fleet: Fleet) -> str:
    """Loads what tells of one only where one has run."""
    if not (fleet.state / "loop.json").exists():
        return ""
    told: str = import_module("reconciler.cli.views.loop").words(fleet)
    return told


def _made(session: Session, given: StatusArguments, key: str) -> Reply:
    """Loads what makes one only where none is known."""
    reply: Reply = import_module("reconciler.cli.status_page").answer(session, given, key)
    return reply
