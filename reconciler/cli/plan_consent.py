"""Consent: the plan is shown, and only a person at a terminal can agree to it."""

from __future__ import annotations

from collections import Counter

from reconciler.cli.command import Session
from reconciler.cli.text import BLANK, Span, Style, count, line
from reconciler.cli.views import plan_text
from reconciler.cli.views.sections import CONSENTED
from reconciler.model.plan.plan import Plan, Risk
from reconciler.model.problem import refuse


class PlanConsent:
    """Called with a plan at most once, before anything is done.

    `approve` is a consent given beforehand: the plan is shown, nobody is asked.
    """

    def __init__(self, session: Session, approve: Risk | None) -> None:
        self._session = session
        self._approve = approve
        self.shown = False
        """Whether the plan is on the screen already."""

    def __call__(self, plan: Plan) -> bool:
        """Whether to go on. Raises ProblemError `nobody_to_ask` where no person can answer."""
        screen = self._session.screen
        tell = screen.tell if self._session.wants_document else screen.show
        tell(plan_text.lines(plan, advise=False))
        self.shown = True
        return self._approve is not None or self._answer(plan)

    def _answer(self, plan: Plan) -> bool:
        screen = self._session.screen
        if not screen.can_ask:
            raise refuse(
                "nobody_to_ask",
                "this plan needs a yes, and there is no terminal to ask on",
                "say it beforehand: --auto-approve, or =interrupts or =destroys for such changes",
            )
        screen.tell([BLANK])
        risks = Counter(c.risk for c in plan.active if c.cause not in CONSENTED)
        if risks[Risk.DESTROYS]:
            what = f"This destroys {risks[Risk.DESTROYS]}. Only `yes` applies this plan:"
            return screen.ask(line(Span(what, Style.BAD))) == "yes"
        what = f"Apply {count(len(plan.active), 'change')}? [yes/no]"
        return screen.ask(line(what)).lower() in ("y", "yes")
