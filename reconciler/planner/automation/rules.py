"""Automation rules: what needs no approval, and what would let the rest go.

By the Policy as git has it, else as it was recorded. A window only adds to what rules allow; a
freeze takes all of it away for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from reconciler.kinds.automation import Allow, Automation, AutomationRule, Freeze, Window
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.plan import RISKS, Risk
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.planner.automation.windows import is_open, next_turn, opens
from reconciler.planner.core.refusal import Refusal

HELD_BY_POLICY = "held_by_policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The highest risk that needs no approval, which Policy rule says so, and what would allow
    more.
    """

    allow: Allow
    by: str


def held(ref: Ref, risk: Risk, automation: Automation, now: datetime) -> Refusal | None:
    """Why a change needs approval now, if so."""
    freeze = next((one for one in automation.freezes if _fits(one, ref) and _lasts(one, now)), None)
    if freeze is not None:
        message = f"nothing goes alone until {freeze.until}: {freeze.reason} (freeze {freeze.name})"
        return Refusal(HELD_BY_POLICY, message, "it goes by itself when the freeze is over")
    leave = _leave(ref, automation, now)
    if _covers(leave.allow, risk):
        return None
    most = "nothing" if leave.allow is Allow.NONE else f"no more than {leave.allow}"
    message = f"it {_told(risk)}, and {most} goes alone here ({leave.by})"
    return Refusal(HELD_BY_POLICY, message, _when(ref, risk, automation, now))


def next_turn_of(automation: Automation, now: datetime) -> datetime | None:
    """When a window opens or shuts next, or a freeze begins or ends."""
    times = (text for one in automation.freezes for text in (one.from_, one.until))
    moments = [moment for text in times if (moment := parse_moment(text)) and moment > now]
    window = next_turn(automation.windows, now)
    return min([*moments, *([window] if window else [])], default=None)


def _leave(ref: Ref, automation: Automation, now: datetime) -> Allowance:
    found = Allowance(allow=automation.allow, by="automation.allow of the Policy")
    for number, rule in enumerate(automation.rules, start=1):
        if _fits(rule, ref):
            found = Allowance(allow=rule.allow, by=f"rule {number} of automation in the Policy")
            break
    for window in automation.windows:
        more = _rank(window.allow) > _rank(found.allow)
        if more and _fits(window, ref) and is_open(window, now):
            found = Allowance(allow=window.allow, by=f"window {window.name} of the Policy")
    return found


def _when(ref: Ref, risk: Risk, automation: Automation, now: datetime) -> str:
    """The next window that lets it go."""
    fitting = (one for one in automation.windows if _fits(one, ref) and _covers(one.allow, risk))
    found = min(_openings(fitting, now), default=None)
    if found is None:
        return "no window lets it go alone"
    moment, name = found
    return f"it goes by itself in window {name}, from {format_moment(moment)} on"


def _openings(windows: Iterable[Window], now: datetime) -> Iterator[tuple[datetime, str]]:
    for window in windows:
        if (moment := opens(window, now)) is not None:
            yield moment, window.name


def _fits(one: AutomationRule | Window | Freeze, ref: Ref) -> bool:
    project = ref.name if ref.kind == "project" else ref.project
    of_kind = not one.kinds or ref.kind in one.kinds
    return of_kind and (not one.projects or project in one.projects)


def _lasts(freeze: Freeze, now: datetime) -> bool:
    """A moment that cannot be read holds more rather than less."""
    begins, ends = parse_moment(freeze.from_), parse_moment(freeze.until)
    return (begins is None or begins <= now) and (ends is None or now < ends)


def _covers(allow: Allow, risk: Risk) -> bool:
    return _rank(allow) > RISKS.index(risk)


def _rank(allow: Allow) -> int:
    return tuple(Allow).index(allow)


def _told(risk: Risk) -> str:
    return "is safe" if risk is Risk.SAFE else risk.value
