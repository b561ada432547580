"""`gpuaas plan`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TypedDict, Unpack

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import of_plan
from reconciler.cli.forced import checked, force_detach
from reconciler.cli.patience import lock_timeout, open_to_write
from reconciler.cli.refs import ALL_REMOVALS, check_ref, check_removals
from reconciler.cli.text import line
from reconciler.cli.views import plan_json, plan_markdown, plan_text
from reconciler.model.plan import Plan, Risk
from reconciler.operations import saving
from reconciler.operations.options import PlanOptions
from reconciler.operations.remembering import recall_plan
from reconciler.operations.wiring import Fleet


class Given(TypedDict):
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


@command("plan", "text", "json", "markdown")
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep this plan in FILE, for one `gpuaas apply FILE`.",
)
@click.option(
    "--only",
    metavar="REF",
    callback=check_ref,
    multiple=True,
    help="Plan only this resource and what it needs; may be repeated.",
)
@click.option(
    "--uncommitted-removals",
    "uncommitted",
    metavar="[=REF]",
    callback=check_removals,
    multiple=True,
    help="Take this, or all, for removed though no commit says so; may be repeated.",
)
@force_detach
@click.option(
    "--risk",
    type=click.Choice([risk.value for risk in Risk]),
    default=Risk.SAFE.value,
    help="Show changes of this risk or a higher one; the plan stays the same.",
)
@click.option("--summary", is_flag=True, help="Show only the last lines.")
@click.option(
    "--expand", is_flag=True, help="Show each change that a new version of gpuaas alone brings."
)
@click.option("--refresh", is_flag=True, help="Ask every host first, however new its answer is.")
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="Exit 2 if there are changes, 4 if there is only drift to repair.",
)
@lock_timeout
def plan(session: Session, **given: Unpack[Given]) -> Reply:
    """Show what would change, where and why.

    First what needs you, then what destroys, interrupts and is safe, then drift. Neither state
    nor hosts are changed.
    """
    fleet = open_to_write(session, given["lock_timeout"])
    options = PlanOptions(
        only=given["only"],
        uncommitted=given["uncommitted"],
        forced=checked(given["forced"], given["reason"]),
        refresh=given["refresh"],
    )
    found = recall_plan(fleet, options) or _make_plan(fleet, options)
    if (file := given["save"]) is not None:
        saving.save_plan(found, file)
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


def _make_plan(fleet: Fleet, options: PlanOptions) -> Plan:
    """Loads the rooms that make plans only now: where nothing changed they are not needed."""
    made: Plan = import_module("reconciler.operations.planning").make_plan(fleet, options)
    return made
