"""What an apply did: every step that failed with the end of its log, then where to log in."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, count, dim, line, strong
from reconciler.cli.views import plan_json
from reconciler.cli.views import problems as problems_view
from reconciler.model.codec import encode
from reconciler.model.plan.work import StepOutcome
from reconciler.operations.apply.application import Applied

LOG_LINES = 12
UNREACHED = frozenset(
    {"host_unreachable", "host_identity_changed", "no_root_on_host", "no_python_on_host"}
)
"""Where the problem says it all: the log of such a step tells of Ansible alone."""


def lines(found: Applied) -> Iterator[TextLine]:
    yield BLANK
    if not found.run:
        yield from problems_view.lines(found.problems)
        yield line("nothing was applied")
        return
    for outcome in found.outcomes:
        if not outcome.ok:
            yield from _failure(outcome)
    yield from problems_view.lines(found.problems)
    yield from (BLANK,) if found.problems else ()
    yield line(Span(*_verdict(found)), f"   run {found.run}", hang=2)
    if found.wrong:
        again = "gpuaas plan --refresh"
        yield line(
            dim(column("next", 8)), strong(again), "   asks the hosts, then says what is left"
        )
    for change in found.done:
        if change.undo_minutes:
            back = f"git revert brings {change.ref} back for {change.undo_minutes} min"
            yield line(dim(column("undo", 8)), back)
    for login in found.logins:
        yield line(dim(column("log in", 8)), strong(login.place), f"   {login.ref}")
        if login.plain:
            yield line(dim(column("", 8)), dim(f"or, where ssh asks about the host: {login.plain}"))


def view(found: Applied) -> dict[str, object]:
    """The JSON form: as the plan's, each step with what came of it and never with its content."""
    shown: dict[str, object] = encode(found)
    del shown["problems"]
    shown["plan"] = plan_json.view(found.plan)
    shown["done"] = [str(change.ref) for change in found.done]
    shown["outcomes"] = [_outcome(outcome) for outcome in found.outcomes]
    return shown


def _outcome(outcome: StepOutcome) -> dict[str, object]:
    shown: dict[str, object] = encode(outcome)
    shown["step"] = {
        "id": outcome.step.id,
        "verb": outcome.step.verb,
        "node": outcome.step.node,
        "ref": str(outcome.step.ref),
    }
    return shown


def _failure(outcome: StepOutcome) -> Iterator[TextLine]:
    step = outcome.step
    word = "unknown" if outcome.unknown else "failed"
    yield line(
        Span(f"! {word} ", Style.WARN if outcome.unknown else Style.BAD),
        strong(str(step.ref)),
        f"  {step.verb} on {step.node}",
        hang=4,
    )
    if outcome.problem is not None and outcome.problem.code in UNREACHED:
        return
    for text in outcome.log.splitlines()[-LOG_LINES:]:
        yield line(dim("    | "), text, hang=6)


def _verdict(found: Applied) -> tuple[str, Style]:
    wrong = len(found.wrong)
    done = f"{count(len(found.done), 'change')}, {count(len(found.outcomes), 'step')} on hosts"
    if found.interrupted:
        left = count(len(found.left), "change") if found.left else "nothing"
        return f"interrupted: {done}; {left} left to do", Style.WARN
    if wrong or any(problem.is_error for problem in found.problems):
        return f"incomplete: {done}, {wrong} of them failed", Style.BAD
    return f"applied: {done}", Style.GOOD
