"""`gpuaas doctor`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import diagnosed as diagnosed_view
from reconciler.model.symptom import WANTS_SOMEBODY
from reconciler.operations.status import doctor as doctor_operation


@command("doctor", "text", "json")
def doctor(session: Session) -> Reply:
    """Say what is stuck, overdue or stale, and what to do about it.

    Each finding names the next command and its runbook. Only the state is read: no host is asked.
    Exits 3 if a finding needs a person, 0 if all of them resolve by themselves.
    """
    found = doctor_operation.examine(open_fleet(session.folder))
    wants = any(one.sort in WANTS_SOMEBODY for one in found)
    return Reply(
        code=Exit.BLOCKED if wants else Exit.DONE,
        result=found,
        lines=diagnosed_view.lines(found),
    )
