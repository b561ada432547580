"""Consent: the plan is shown, and a person at a terminal says yes; nobody else can."""

from __future__ import annotations

from collections import Counter

from reconciler.cli.command import Session
from reconciler.cli.text import BLANK, Span, Style, line
from reconciler.cli.views import plan_text
from reconciler.model.plan import Plan, Risk
from reconciler.model.problem import refuse


class Consent:
    """Called with the plan once, before anything is done. `approve` was given beforehand."""

    def __init__(self, session: Session, approve: Risk | None) -> None:
        self._session = session
        self._approve = approve

    def __call__(self, plan: Plan) -> bool:
        """Whether to go on. Raises ProblemError `nobody_to_ask` where no person can answer."""
        screen = self._session.screen
        tell = screen.tell if self._session.wants_document else screen.show
        tell(plan_text.lines(plan))
        if self._approve is not None:
            return True
        if not screen.can_ask:
            raise refuse(
                "nobody_to_ask",
                "this plan needs a yes, and there is no terminal to ask on",
                "say it beforehand: --auto-approve, or =interrupts or =destroys for such changes",
            )
        tell([BLANK])
        return self._ask(plan)

    def _ask(self, plan: Plan) -> bool:
        risks = Counter(change.risk for change in plan.active)
        if risks[Risk.DESTROYS]:
            what = f"This destroys {risks[Risk.DESTROYS]}. Only `yes` applies this plan:"
            return self._session.screen.ask(line(Span(what, Style.BAD))) == "yes"
        what = f"Apply these {len(plan.active)} changes? [yes/no]"
        return self._session.screen.ask(line(what)).lower() in ("y", "yes")
