"""`gpuaas plan`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.force_detach import checked, force_detach
from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.arguments.refs import ALL_REMOVALS, check_ref, check_removals
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import of_comparison, of_plan
from reconciler.cli.fleet import open_fleet
from reconciler.cli.text import line
from reconciler.cli.views import plan_json, plan_markdown, plan_text
from reconciler.model.plan.comparison import Comparison
from reconciler.model.plan.plan import Plan, Risk
from reconciler.operations.cache.plan_cache import recall_plan
from reconciler.operations.fleet import Fleet
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan import saved


class PlanArguments(TypedDict):
    save: Path | None
    only: tuple[str, ...]
    uncommitted: tuple[str, ...]
    forced: tuple[str, ...]
    reason: str
    risk: str
    summary: bool
    expand: bool
    refresh: bool
    detailed_exitcode: bool
    lock_timeout: float
    against: str | None
    state: str | None


@command("plan", "text", "json", "markdown")
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Save this plan to FILE, for one `gpuaas apply FILE`.",
)
@click.option(
    "--only",
    metavar="REF",
    callback=check_ref,
    multiple=True,
    help="Plan only this resource and what it depends on; may be repeated.",
)
@click.option(
    "--uncommitted-removals",
    "uncommitted",
    metavar="[=REF]",
    callback=check_removals,
    multiple=True,
    help="Treat this resource, or all, as removed though no commit removed it; may be repeated.",
)
@force_detach
@click.option(
    "--risk",
    type=click.Choice([risk.value for risk in Risk]),
    default=Risk.SAFE.value,
    help="Show only changes of this risk or higher; the plan itself is the same.",
)
@click.option("--summary", is_flag=True, help="Show only the closing summary.")
@click.option(
    "--expand", is_flag=True, help="List every change that comes only from a new version of gpuaas."
)
@click.option(
    "--refresh", is_flag=True, help="Ask every host first, even if its last answer is recent."
)
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="Exit 2 if there are changes, 4 if there is only drift to repair.",
)
@click.option(
    "--against",
    metavar="REV",
    help="Show only what this tree changes compared with the commit REV, such as origin/main.",
)
@click.option(
    "--state",
    metavar="FILE|URL",
    help="With --against: read this copy of the state, made by `gpuaas state backup`.",
)
@lock_timeout
def plan(session: Session, **given: Unpack[PlanArguments]) -> Reply:
    """Show what would change, where and why.

    The plan lists first what needs you, then changes that destroy, interrupt or are safe, then
    drift. Neither the state nor any host is changed. --against is for reviews: it asks no host,
    needs no key, and its result cannot be applied; -o markdown fits into a comment.
    """
    if (revision := given["against"]) is not None:
        return _compare(session, given, revision)
    if given["state"] is not None:
        raise click.UsageError("--state goes with --against: nothing is applied to a copy")
    fleet = open_to_write(session, given["lock_timeout"])
    options = PlanOptions(
        only=given["only"],
        uncommitted=given["uncommitted"],
        forced=checked(given["forced"], given["reason"]),
        refresh=given["refresh"],
    )
    found = recall_plan(fleet, options) or _make_plan(fleet, options)
    if (file := given["save"]) is not None:
        saved.save_plan(found, file)
        session.screen.tell([line(f"saved to {file}; to apply it: gpuaas apply {file}")])
    at_least = Risk(given["risk"])
    return Reply(
        code=of_plan(found, detailed=given["detailed_exitcode"]),
        problems=found.problems,
        result=plan_json.view(found) if session.wants_document else None,
        raw=plan_markdown.text(found, at_least, expand=given["expand"])
        if session.format == "markdown"
        else "",
        lines=plan_text.foot(found)
        if given["summary"]
        else plan_text.lines(found, at_least, expand=given["expand"]),
    )


plan.bare = {"--uncommitted-removals": ALL_REMOVALS}


def _compare(session: Session, given: PlanArguments, revision: str) -> Reply:
    """Loads its rooms only now, like those that make plans."""
    for name, word in APART.items():
        if given[name]:  # type: ignore[literal-required]
            raise click.UsageError(f"--against and {word} do not go together: it is only looked at")
    made: Comparison = import_module("reconciler.operations.plan.comparison").compare_with(
        open_fleet(session.folder), revision, given["state"]
    )
    view = import_module("reconciler.cli.views.comparison")
    markdown = import_module("reconciler.cli.views.comparison_markdown")
    at_least, expand = Risk(given["risk"]), given["expand"]
    is_markdown = session.format == "markdown"
    return Reply(
        code=of_comparison(made, detailed=given["detailed_exitcode"]),
        problems=made.plan.problems,
        result=view.view(made) if session.wants_document else None,
        raw=markdown.text(made, at_least, expand=expand) if is_markdown else "",
        lines=view.foot(made) if given["summary"] else view.lines(made, at_least, expand=expand),
    )


APART = {
    "save": "--save",
    "only": "--only",
    "uncommitted": "--uncommitted-removals",
    "forced": "--force-detach",
    "refresh": "--refresh",
}


def _make_plan(fleet: Fleet, options: PlanOptions) -> Plan:
    """Loads the rooms that make plans only now: where nothing changed they are not needed."""
    made: Plan = import_module("reconciler.operations.plan.plan").make_plan(fleet, options)
    return made
