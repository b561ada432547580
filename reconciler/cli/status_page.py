"""The page of `gpuaas status`, made anew where none is cached."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import click

from reconciler.cli.command import Reply, Session
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import cards as cards_view
from reconciler.cli.views import pages
from reconciler.cli.views import status as status_view
from reconciler.cli.views.loop import words as loop_words
from reconciler.model.problem import ProblemError
from reconciler.operations.cache.pages import page_key, remember_page
from reconciler.operations.fleet import Fleet, os_login, utc_now
from reconciler.operations.inventory import sync
from reconciler.operations.reconcile.source.tree import as_it_reads, stands
from reconciler.operations.status import status
from reconciler.operations.status.status import Glance
from reconciler.operations.views import PendingChanges, Status

if TYPE_CHECKING:
    from reconciler.cli.commands.status import StatusArguments

TRIES = 3
"""So often a plan is made anew where the loop has turned to another commit meanwhile."""

MOST = 20
"""Of more allocations a page is shown."""


def answer(session: Session, given: StatusArguments, key: str) -> Reply:
    """The page; with its `key` it is cached, if the fleet is still the same when it is made."""
    login = os_login() if given["mine"] else ""
    if given["gpu"]:
        return _cards(session, given, login)
    if key:
        return _page(session, key)
    if given["source"]:
        found = _published(given["source"], given["project"], login)
    elif given["state_only"]:
        found = status.status(open_fleet(session.folder), given["project"], login)
    else:
        found = _with_plan(open_fleet(session.folder), given["project"], login).status
    if given["stale"]:
        found = status.only_stale(found, given["stale"])
    most = None if given["all_"] else MOST
    width = session.screen.width
    loop = "" if given["source"] else loop_words(open_fleet(session.folder))
    shown = status_view.lines(found, width=width, ways=given["mine"], most=most, loop=loop)
    return Reply(result=found, lines=shown)


def _page(session: Session, key: str) -> Reply:
    fleet, width = open_fleet(session.folder), session.screen.width
    made = _with_plan(fleet)
    found = made.status
    lines = tuple(status_view.body(found, width=width, most=MOST))
    until = made.lasts_until(status_view.shown(found, MOST))
    same = page_key(fleet, f"status {width}") == key
    lasts = until is None or until > fleet.now()
    if same and lasts and found.pending and not found.pending.unknown:
        kept = {"observed": found.observed_age, "lines": pages.kept(lines)}
        remember_page(fleet, key, kept, until)
    return Reply(
        result=found, lines=(*lines, pages.foot(found.observed_age, loop=loop_words(fleet)))
    )


def _cards(session: Session, given: StatusArguments, login: str) -> Reply:
    if given["source"] or given["stale"]:
        raise click.UsageError("--gpu goes with --project and --mine alone")
    fleet = open_fleet(session.folder)
    rows = status.cards(fleet, given["project"], login)
    shown = cards_view.lines(rows, fleet.now(), width=session.screen.width)
    return Reply(result=rows, lines=shown)


def _with_plan(fleet: Fleet, project: str = "", login: str = "") -> Glance:
    """What a plan says is remembered; the rooms that make one are loaded where it is not.

    While a loop lives it is a plan of what that reads.
    """
    try:
        for _ in range(TRIES):
            reading = as_it_reads(fleet)
            standing = sync.recall_standing(reading.fleet)
            if standing is None:
                make = import_module("reconciler.operations.plan.plan").make_plan
                standing = sync.make_standing(reading.fleet, make)
            if stands(reading):
                break
    except ProblemError as error:
        found = status.glance(fleet, project, login)
        (problem, *_) = error.problems
        pending = PendingChanges(unknown=f"{problem.code}: {problem.message}")
        return found._replace(status=replace(found.status, pending=pending))
    return status.glance(fleet, project, login, standing)


def _published(source: str, project: str, login: str) -> Status:
    """Loads what checks foreign files only where one is read."""
    published = import_module("reconciler.operations.published.read")
    found: Status = published.published_status(source, utc_now(), project, login)
    return found
