"""`gpuaas reconcile`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.lock_timeout import as_seconds, lock_timeout, open_to_write
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit, of_plan, of_problems, worst
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import reconciled
from reconciler.model.problem import ProblemError
from reconciler.model.settings import LoopSettings, SourceSettings
from reconciler.operations.liveness import presence
from reconciler.operations.notifications.news import News
from reconciler.operations.person import insist_on_reason
from reconciler.operations.reconcile import loop
from reconciler.operations.reconcile.service.install import install, units
from reconciler.operations.reconcile.service.signals import LoopSignals
from reconciler.operations.reconcile.source.accept import accept_history
from reconciler.operations.reconcile.source.source import check_source

RUN = "run"
LEAST_SECONDS = 5


class Default(click.Group):
    """Runs the loop, with its options, when no verb is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        helps = ctx.help_option_names
        if not any(word in self.commands or word in helps for word in args[:1]):
            args = [RUN, *args]
        return super().parse_args(ctx, args)


@click.group("reconcile", cls=Default)
def reconcile() -> None:
    """Keep hosts as git wants them, unattended.

    Each round takes the newest commit, observes the hosts that are due, plans, and carries out what
    the Policy lets go without approval; everything else is held and reported. The word `run` may be
    left out.
    """


class ReconcileArguments(TypedDict):
    once: bool
    wake: bool
    watch: bool
    interval: float
    source: str
    branch: str
    tag: str
    path: str
    log_format: str


@command(RUN, "text", "json", parent=reconcile)
@click.option("--once", is_flag=True, help="Do one round and end, for use by a timer.")
@click.option(
    "--interval",
    metavar="DURATION",
    callback=as_seconds,
    default="0s",
    help="Time between rounds; by default loop.intervalSeconds, or 60s.",
)
@click.option("--watch", is_flag=True, help="Begin a round as soon as a new commit is seen.")
@click.option("--wake", is_flag=True, help="Make the running loop begin a round now.")
@click.option(
    "--from",
    "source",
    metavar="URL",
    default="",
    help="Repository to follow; by default loop.source, or that of the fleet's folder.",
)
@click.option("--branch", metavar="NAME", default="", help="Branch to follow.")
@click.option("--tag", metavar="NAME", default="", help="Tag to follow instead of a branch.")
@click.option(
    "--path", metavar="DIR", default="", help="Path of the fleet's folder inside the repository."
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Format of the log on standard error, one line for each decision.",
)
def run(session: Session, **given: Unpack[ReconcileArguments]) -> Reply:
    """Run the loop, or one round of it.

    The loop follows commits only: edits that are not committed change nothing. The first Ctrl-C or
    SIGTERM ends it after the running play, SIGHUP makes it read gpuaas.yaml again, and SIGUSR1
    begins a round.
    """
    if given["wake"]:
        pid = presence.wake(open_fleet(session.folder))
        return Reply(result={"pid": pid}, lines=reconciled.woken(pid))
    options = loop.LoopOptions(
        open=partial(open_fleet, session.folder),
        loop=_said(given),
        watch=given["watch"] and not given["once"],
    )
    signals = LoopSignals(reconciled.ending(session.screen, given["log_format"]))
    say = reconciled.teller(session.screen, given["log_format"])
    as_objects = given["log_format"] == "json"
    try:
        if given["once"]:
            return _once(session, options, signals, say if as_objects else None)
        loop.reconcile(options, signals, say)
    except ProblemError as error:
        if not as_objects:
            raise
        # Whoever reads objects gets nothing else, whatever it comes to.
        for problem in error.problems:
            say(reconciled.refusal(problem))
        return Reply(code=of_problems(error.problems), problems=error.problems)
    return Reply(lines=())


def _once(
    session: Session,
    options: loop.LoopOptions,
    signals: LoopSignals,
    say: Callable[[News], None] | None,
) -> Reply:
    """With `say`, decisions are printed as the loop prints them, else as other commands do."""
    found = loop.reconcile_once(options, signals)
    if say is not None:
        for news in found.news:
            say(news)
    plan = found.tick.plan
    codes = [of_problems(found.tick.problems), Exit.ERROR if found.tick.failed else Exit.DONE]
    codes += [of_plan(plan, detailed=False)] if plan else []
    return Reply(
        code=Exit.INTERRUPTED if found.tick.interrupted else worst(codes),
        problems=(*(plan.problems if plan else ()), *found.tick.problems),
        result=reconciled.view(found.tick) if session.wants_document else None,
        lines=() if say else reconciled.lines(found),
    )


@command("accept", "text", "json", parent=reconcile)
@click.argument("commit", metavar="COMMIT")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, written to the audit log.")
@lock_timeout
def accept(session: Session, commit: str, reason: str, lock_timeout: float) -> Reply:
    """Follow a commit that does not descend from the last one followed.

    Use it after a force push, or when another branch is to be followed from now on. COMMIT is the
    commit that the source has now, at least seven digits of it.
    """
    insist_on_reason(reason)
    found = accept_history(open_to_write(session, lock_timeout), commit, reason)
    return Reply(result=found, lines=reconciled.accepted(found))


@command("install", "text", "json", parent=reconcile)
@click.option("--timer", is_flag=True, help="Write a timer that runs single rounds instead.")
@click.option("--print", "shown", is_flag=True, help="Print the units and write nothing.")
def install_units(session: Session, timer: bool, shown: bool) -> Reply:
    """Write the systemd unit that runs the loop of this fleet.

    The unit runs as the user who owns the state, without privileges, and may write only to the
    state and the published files. Nothing is started.
    """
    fleet = open_fleet(session.folder)
    if shown:
        found = units(fleet, timer=timer)
        return Reply(raw="".join(found.values()), result=found)
    done = install(fleet, timer=timer)
    return Reply(result=done, lines=reconciled.installed(done))


accept.writes = install_units.writes = True


def _said(given: ReconcileArguments) -> Callable[[LoopSettings], LoopSettings]:
    """Options of the command line override the settings."""
    if given["interval"] and given["interval"] < LEAST_SECONDS:
        raise click.UsageError(f"rounds are at least {LEAST_SECONDS} s apart")
    if given["branch"] and given["tag"]:
        raise click.UsageError("it is a branch or a tag, and not both")
    stated = SourceSettings(
        url=given["source"], branch=given["branch"], tag=given["tag"], path=given["path"]
    )
    if why := check_source(stated):
        raise click.UsageError(why)

    def said(loop_settings: LoopSettings) -> LoopSettings:
        source = loop_settings.source
        if stated.url:
            source = stated
        elif stated.branch or stated.tag:
            source = replace(source, branch=stated.branch, tag=stated.tag)
        seconds = int(given["interval"]) or loop_settings.interval_seconds
        return replace(loop_settings, interval_seconds=seconds, source=source)

    return said
