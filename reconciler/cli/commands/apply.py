"""`gpuaas apply`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.force_detach import checked, force_detach
from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.arguments.refs import ALL_REMOVALS, check_ref, check_removals
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit, of_plan, of_problems, worst
from reconciler.cli.plan_consent import PlanConsent
from reconciler.cli.views import applied as applied_view
from reconciler.cli.views import plan_text
from reconciler.cli.views.progress import ProgressView
from reconciler.model.plan.plan import Risk
from reconciler.operations.apply import apply as apply_operation
from reconciler.operations.apply.application import Applied, ApplyOptions
from reconciler.operations.signals import Interrupts

RISKS = tuple(risk.value for risk in Risk)


class Waiting(TypedDict):
    uncommitted: tuple[str, ...]
    forced: tuple[str, ...]
    reason: str
    no_wait: bool
    lock_timeout: float


@command("apply", "text", "json")
@click.argument("plan_file", required=False, type=click.Path(path_type=Path), metavar="[PLANFILE]")
@click.option(
    "--auto-approve",
    type=click.Choice(RISKS),
    metavar="[=safe|interrupts|destroys]",
    help="Do not ask; hold changes of a higher risk. Without a value: safe.",
)
@click.option(
    "--only",
    metavar="REF",
    callback=check_ref,
    multiple=True,
    help="Apply only this resource and what it depends on; may be repeated.",
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
    "--no-wait", is_flag=True, help="Do not wait for hosts that restart or build bundles."
)
@lock_timeout
def apply(
    session: Session,
    plan_file: Path | None,
    auto_approve: str | None,
    only: tuple[str, ...],
    **waiting: Unpack[Waiting],
) -> Reply:
    """Carry out exactly what a plan shows, after a yes.

    Without PLANFILE, a plan is made and shown first. If anything it is based on changes before you
    answer, nothing is done. The first Ctrl-C lets the running play finish and starts no other. A
    second Ctrl-C ends it at once; what it was doing is then unknown until the next plan.
    """
    if plan_file is not None and plan_file.name in RISKS and not plan_file.exists():
        raise click.UsageError(f"the risk needs a sign: --auto-approve={plan_file}")
    if plan_file is not None and (only or waiting["uncommitted"] or waiting["forced"]):
        raise click.UsageError(
            "--only and the like are for making a plan; PLANFILE is made already"
        )
    forced = checked(waiting["forced"], waiting["reason"])
    approve = Risk(auto_approve) if auto_approve else None
    consent, progress = PlanConsent(session, approve), ProgressView(session.screen)
    with progress as report:
        found = apply_operation.apply(
            open_to_write(session, waiting["lock_timeout"]),
            ApplyOptions(
                plan_file=plan_file,
                approve=approve,
                only=only,
                uncommitted=waiting["uncommitted"],
                forced=forced,
                wait=not waiting["no_wait"],
            ),
            consent,
            report,
            Interrupts(progress.wish),
        )
    before = () if consent.shown else plan_text.lines(found.plan, advise=False)
    return Reply(
        code=_code(found),
        problems=(*found.plan.problems, *found.problems),
        result=applied_view.view(found) if session.wants_document else None,
        lines=chain(before, applied_view.lines(found)),
    )


apply.writes = True
apply.bare = {"--auto-approve": Risk.SAFE.value, "--uncommitted-removals": ALL_REMOVALS}


def _code(found: Applied) -> Exit:
    if found.interrupted:
        return Exit.INTERRUPTED
    return worst([of_problems(found.problems), of_plan(found.plan, detailed=False)])
