"""`gpuaas status`."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TypedDict, Unpack

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, open_fleet
from reconciler.cli.patience import as_seconds
from reconciler.cli.views import cards as cards_view
from reconciler.cli.views import status as status_view
from reconciler.model.problem import ProblemError
from reconciler.operations import inspecting, syncing
from reconciler.operations.views import Pending, Status
from reconciler.operations.wiring import Fleet, os_login, utc_now


class Given(TypedDict):
    project: str
    mine: bool
    stale: float
    state_only: bool
    source: str
    gpu: bool


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
@click.option(
    "--state-only", is_flag=True, help="Without a plan of now: quick, however large the fleet."
)
@click.option("--gpu", is_flag=True, help="Only cards: how busy, and how much memory is in use.")
@from_option
def status(session: Session, **given: Unpack[Given]) -> Reply:
    """Show the fleet and its allocations.

    What is there and free, what needs you, what is suspended, and each allocation: SYNC is how far
    it is or how a plan of now stands to it, GPU% how busy its cards were. No host is asked; the age
    of what hosts last said is shown. With --from it is read from what is published, which tells of
    allocations alone. With --gpu it is a table of the cards that allocations have, as their hosts
    last told.
    """
    project, mine = given["project"], given["mine"]
    login = os_login() if mine else ""
    if given["gpu"]:
        return _cards(session, given, login)
    if given["source"]:
        found = _published(given["source"], project, login)
    elif given["state_only"]:
        found = inspecting.status(open_fleet(session.folder), project, login)
    else:
        found = _with_plan(open_fleet(session.folder), project, login)
    if given["stale"]:
        found = inspecting.only_stale(found, given["stale"])
    shown = status_view.lines(found, width=session.screen.width, ways=mine)
    return Reply(result=found, lines=shown)


def _cards(session: Session, given: Given, login: str) -> Reply:
    if given["source"] or given["stale"]:
        raise click.UsageError("--gpu goes with --project and --mine alone")
    fleet = open_fleet(session.folder)
    rows = inspecting.cards(fleet, given["project"], login)
    shown = cards_view.lines(rows, fleet.now(), width=session.screen.width)
    return Reply(result=rows, lines=shown)


def _with_plan(fleet: Fleet, project: str, login: str) -> Status:
    """What a plan says is remembered; the rooms that make one are loaded where it is not."""
    try:
        standing = syncing.recall_standing(fleet)
        if standing is None:
            make = import_module("reconciler.operations.planning").make_plan
            standing = syncing.make_standing(fleet, make)
    except ProblemError as error:
        found = inspecting.status(fleet, project, login)
        (problem, *_) = error.problems
        return replace(found, pending=Pending(unknown=f"{problem.code}: {problem.message}"))
    return inspecting.status(fleet, project, login, standing)


def _published(source: str, project: str, login: str) -> Status:
    """Loads what checks foreign files only where one is read."""
    published = import_module("reconciler.operations.published")
    found: Status = published.published_status(source, utc_now(), project, login)
    return found
