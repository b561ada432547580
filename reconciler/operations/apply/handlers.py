"""How an apply goes about each verb, beyond asking for it and judging it by what its host shows.

A verb that is not in the table is waited for as long as its host takes to answer, is judged by
that, and is recorded when its change is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

from reconciler.kinds.allocation.restart import reboots
from reconciler.kinds.allocation.storage import records_let_go
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Step
from reconciler.model.plan.verb import Verb
from reconciler.model.plan.work import StepOutcome
from reconciler.model.records import dataclass
from reconciler.operations.apply.wave.builds import judge_build
from reconciler.planner.storage.attachment_rules import joining_by


class Goes(StrEnum):
    """By what a host goes on by itself after it has answered."""

    BOOT = "boot"
    BUILD = "build"


def _ends(step: Step) -> bool:
    """It is over when its host has answered."""
    return False


def _nothing(step: Step) -> Collection[str]:
    return ()


def _always(step: Step) -> bool:
    return True


def _as_shown(outcome: StepOutcome, seen: Observation | None) -> StepOutcome:
    return outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """`goes` says by what a host goes on by itself, where `goes_on` says that it does.

    What is `slow` nobody waits for, and a host that cannot do it says nothing of any other.
    What `readies` a host is done one host at a time until one is kept, and kept only where it
    shows through a connection of its own. Where a verb is `recorded_first`, what a change says is
    fixed before any host begins. After one that `leaves_nothing` nothing of a uid may be left. One
    that is `passing` leaves nothing made: a restart has the host's own mark, and later something
    runs. `lets_go` are paths of facts that are recorded no more.
    """

    goes: Goes | None = None
    goes_on: Callable[[Step], bool] = _ends
    judge: Callable[[StepOutcome, Observation | None], StepOutcome] = _as_shown
    slow: bool = False
    readies: bool = False
    recorded_first: bool = False
    leaves_nothing: bool = False
    passing: bool = False
    lets_go: Callable[[Step], Collection[str]] = _nothing


_BUILD = Handler(
    goes=Goes.BUILD, goes_on=_always, judge=judge_build, slow=True, recorded_first=True
)

HANDLERS: Mapping[Verb, Handler] = {
    Verb.PREPARE: Handler(readies=True),
    Verb.RESTART: Handler(goes=Goes.BOOT, goes_on=reboots, passing=True),
    Verb.QUARANTINE: Handler(passing=True),
    Verb.DETACH: Handler(lets_go=records_let_go),
    Verb.FORGET: Handler(lets_go=records_let_go),
    Verb.RELEASE: Handler(leaves_nothing=True),
    Verb.STAGE: _BUILD,
    Verb.REPAIR: _BUILD,
    Verb.DISCARD: Handler(judge=judge_build, slow=True, recorded_first=True),
}

JOINS = joining_by
"""What is to be written down beside claims before these steps of a plan begin."""

_OTHER = Handler()


def handler_of(step: Step) -> Handler:
    return HANDLERS.get(step.verb, _OTHER)


def goes_on_by(step: Step, how: Goes) -> bool:
    """Whether its host goes on by itself so, once it has answered."""
    handler = handler_of(step)
    return handler.goes is how and handler.goes_on(step)


def is_slow(step: Step) -> bool:
    return handler_of(step).slow


def readies(step: Step) -> bool:
    return handler_of(step).readies
