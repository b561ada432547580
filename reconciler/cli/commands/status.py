"""`gpuaas status`."""

from __future__ import annotations

from importlib import import_module
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.lock_timeout import as_seconds
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, open_fleet
from reconciler.cli.views import pages
from reconciler.operations.cache.pages import Page, page_key, recall_page
from reconciler.operations.fleet import Fleet


class StatusArguments(TypedDict):
    project: str
    mine: bool
    stale: float
    state_only: bool
    source: str
    gpu: bool
    all_: bool


@command("status", "text", "json")
@click.option("--project", default="", metavar="NAME", help="Only allocations of this project.")
@click.option(
    "--mine",
    is_flag=True,
    help="Only allocations that you own or have access to, and how to log in.",
)
@click.option(
    "--stale",
    default="0s",
    metavar="DURATION",
    callback=as_seconds,
    help="Only allocations whose host has not answered for this long, such as 10m.",
)
@click.option("--all", "all_", is_flag=True, help="List every allocation.")
@click.option("--state-only", is_flag=True, help="Do not make a plan: fast, even in a large fleet.")
@click.option(
    "--gpu", is_flag=True, help="Show GPUs only: how busy they are, and how much memory is in use."
)
@from_option
def status(session: Session, **given: Unpack[StatusArguments]) -> Reply:
    """Show the fleet and its allocations.

    The page shows what there is and what is free, what needs you, what is suspended, and the
    allocations. SYNC says how far an allocation is, or how it compares with a plan made now; GPU%
    says how busy its GPUs were. Of more than twenty allocations, only those that need attention and
    the first ones are listed; --all lists every one, and so does JSON. No host is asked; the age of
    each host's last answer is shown. --from reads what is published, which covers allocations only.
    --gpu shows a table of the GPUs that allocations hold, as their hosts last reported them.
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
    """Loads the code that describes a loop only where one has run."""
    if not (fleet.state / "loop.json").exists():
        return ""
    told: str = import_module("reconciler.cli.views.loop").words(fleet)
    return told


def _made(session: Session, given: StatusArguments, key: str) -> Reply:
    """Loads the code that makes a plan only where none is known."""
    reply: Reply = import_module("reconciler.cli.status_page").answer(session, given, key)
    return reply
