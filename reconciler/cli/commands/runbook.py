"""`gpuaas runbook`."""

from __future__ import annotations

from functools import partial

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import runbook as runbook_view
from reconciler.operations.history import runbook as runbook_operation


@command("runbook", "text", "json")
@click.argument("code", required=False, metavar="[CODE]")
def runbook(session: Session, code: str | None) -> Reply:
    """Say what to do about a problem code or symptom, with the facts of this fleet.

    CODE is the word in brackets after a problem, a finding of `gpuaas doctor`, a rule that `gpuaas
    explain` names, or the name of a runbook. Without CODE, all runbooks are listed. The command
    also works without a fleet or a state.
    """
    if code is None:
        pages = runbook_operation.pages()
        return Reply(result=pages, lines=runbook_view.listed(pages))
    found = runbook_operation.advise(code, partial(open_fleet, session.folder))
    return Reply(result=found, lines=runbook_view.lines(found))
