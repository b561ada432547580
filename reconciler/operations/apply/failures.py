"""Failures of a wave's steps, each cause reported once.

What is wrong with a host is told of the host, however many steps it was to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.operations.apply.wave.reboot import NOT_BACK, UNDER_WAY
from reconciler.operations.observe import SILENT
from reconciler.planner.admission import HOST_HINTS

OF_HOSTS: Mapping[str, str] = MappingProxyType(
    {
        **{code: HOST_HINTS[code] for code in SILENT},
        "host_timeout": "look at its load, then: gpuaas apply, which looks at it first",
        "host_answer_invalid": "look at what answers on it in our place: the log has its words",
        "host_busy": "see what runs there: pgrep -af python3; gpuaas apply waits for it again",
        NOT_BACK: "look at its console; once it answers: gpuaas apply, which finishes it",
        "host_rebooted": "it has been looked at since: gpuaas apply",
        "ansible_failed": "the log below `state/runs` says why; then: gpuaas apply",
        "play_incomplete": "gpuaas apply looks at it first; report this if it comes again",
    }
)
"""What is said of a host as a whole, and what to do about it."""


def tell(outcomes: Iterable[StepOutcome]) -> list[Problem]:
    """Problems in the order of the steps; one for each host and cause, with a count of its
    steps.
    """
    told: dict[tuple[str, str], list[StepOutcome]] = {}
    for outcome in outcomes:
        if outcome.problem is not None:
            step, code = outcome.step, outcome.problem.code
            once = step.node if code in OF_HOSTS or code == UNDER_WAY else step.id
            told.setdefault((code, once), []).append(outcome)
    return list(_problems(told.values()))


def _problems(groups: Iterable[list[StepOutcome]]) -> Iterator[Problem]:
    for first, *more in groups:
        problem = first.problem
        if problem is None or problem.code not in OF_HOSTS:
            yield from () if problem is None else (problem,)
            continue
        count = f"{1 + len(more)} steps" if more else "1 step"
        end = f"what became of {count} is unknown" if first.unknown else f"{count} not done"
        yield Problem(
            code=problem.code,
            message=f"{problem.message}; {end}",
            hint=OF_HOSTS[problem.code],
            ref=f"node/{first.step.node}",
        )
