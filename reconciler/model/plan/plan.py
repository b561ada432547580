"""The plan: what will change, where, why and in which order. Data only; apply does nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from reconciler.model.canonical import digest, text_digest
from reconciler.model.codec import chosen, encode
from reconciler.model.host.capacity import Placement
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.force_detach import NOTHING_FORCED, Forced
from reconciler.model.plan.items.item import WorkItem
from reconciler.model.plan.verb import Verb, item_of
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.spec.revision import Revision
from reconciler.model.state.volume import Attachment, VolumeIntent
from reconciler.model.state.world import Suspension


class Action(StrEnum):
    BLOCKED = "blocked"
    RELEASE = "release"
    REPLACE = "replace"
    RESTART = "restart"
    RESTORE = "restore"
    ADOPT = "adopt"
    CREATE = "create"
    CHANGE = "change"
    FORGET = "forget"
    RENAME = "rename"
    REPAIR = "repair"
    STAGE = "stage"
    FROZEN = "frozen"


class Risk(StrEnum):
    SAFE = "safe"
    INTERRUPTS = "interrupts"
    DESTROYS = "destroys"


RISKS = (Risk.SAFE, Risk.INTERRUPTS, Risk.DESTROYS)
"""From the least to the worst."""


class Order(StrEnum):
    """The order of work on one host: retire, then provide, then enrich."""

    RETIRE = "retire"
    PROVIDE = "provide"
    ENRICH = "enrich"


class Cause(StrEnum):
    """Why something changes that nobody has changed."""

    RERENDERED = "rerendered"
    """Only the program makes its files otherwise: it was upgraded, or its templates changed."""
    EXPIRED = "expired"
    """Its time is up, and its grace: its owner has known from the beginning (rule 12)."""
    CONSENTED = "consented"
    """Somebody said yes to it before, and it has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """`path` into the normal form; `rule` is the word of the kind's FIELD_RULES."""

    path: str
    before: object = None
    after: Any = None
    rule: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One verb for one ref on one host.

    `item` is all the host is told; `expected` is what the observe code must then find (path → fact,
    None = must not exist). `revokes` names the people, or `user/key`, whose access ends with it:
    until it is done, that is shown as pending.
    """

    id: str
    verb: Verb
    node: str
    ref: Ref
    order: Order
    item: WorkItem = field(metadata=chosen("verb", item_of))
    expected: Mapping[str, str | None] = field(default_factory=dict)
    revokes: tuple[str, ...] = ()


def step_id(node: str, verb: Verb, ref: Ref, incarnation: str = "") -> str:
    """Steps are unique by host, verb and ref; only a replace works on two incarnations of a ref."""
    return text_digest(f"{node}\n{verb}\n{ref}\n{incarnation}").removeprefix("sha256:")[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the plan. `problem` is set when it is blocked: nothing of it will be done.

    `facts` are lines for people (label → text); no code decides by them.
    """

    ref: Ref
    action: Action
    risk: Risk = Risk.SAFE
    summary: str = ""
    file: str = ""
    line: int = 0
    origin: Origin = field(default_factory=Origin)
    fields: tuple[FieldChange, ...] = ()
    placement: Placement | None = None
    allocation_id: str = ""
    login: str = ""
    basis: str = ""
    steps: tuple[str, ...] = ()
    problem: Problem | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    caused_by: tuple[Ref, ...] = ()
    cause: Cause | None = None
    former: Ref | None = None
    gpus: int = 0
    price_per_hour: Mapping[str, str] = field(default_factory=dict)
    """How much more or less is paid from then on, by currency."""
    rate_per_hour: Mapping[str, str] = field(default_factory=dict)
    """The whole hourly price of what is taken, by currency."""
    normal: Mapping[str, Any] | None = None
    digest: str = ""
    protect: bool = False
    undo_minutes: int = 0
    """How long this release can be taken back, since it destroys nothing yet; 0 if it does."""
    fingerprint: str = ""
    """What somebody would approve, where it is held and may be."""
    consent: str = ""
    """The fingerprint by which somebody has approved it; empty where nobody has."""
    expires_at: str | None = None
    """When its time is over; empty without an end, None where this says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Steps that may run at the same time on their hosts; each host works in `Order`."""

    number: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Drift that was seen and that a plan only tells of: `topic` is its class, or `unchecked`.

    `accepted` says by whom, until when and why it is known; empty if it is not.
    """

    ref: Ref
    topic: str
    text: str
    accepted: str = ""


class EndState(StrEnum):
    """What is at an end: a time that runs out, the grace after it, the minutes of a quarantine."""

    EXPIRES = "expires"
    GRACE = "grace"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """An allocation that comes to an end, and when: that of its state."""

    ref: Ref
    state: EndState
    at: str
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFigures:
    """Counts for the head and the foot of the screen; ages in seconds, None = unknown.

    `silent` says of each node without an answer what is known of that.
    """

    nodes: int = 0
    answered: int = 0
    silent: Mapping[str, str] = field(default_factory=dict)
    observed_age: int | None = None
    gpus: int = 0
    gpus_held_before: int = 0
    gpus_held_after: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sorted and complete: changes by action then ref, waves by number, steps by node and order.

    `next_moment` is the earliest time at which the same specs and state could plan otherwise.
    `confirmed` needs nothing: it was in doubt, or is made from other texts, and shows what it
    should. The next apply writes that down, and in which file each of `moved` is now. `volumes` and
    `attachments` are those to be written down before any host is touched, as `claims` are.
    `uncommitted` names removals that count though no commit has made them. Nobody is asked about
    one that is `unattended`. `written_by` is the
    version that applied last.
    """

    revision: Revision
    desired_digest: str
    state_id: str
    serial: int
    made_at: str
    changes: tuple[Change, ...] = ()
    confirmed: tuple[Change, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[ClaimIntent, ...] = ()
    volumes: tuple[VolumeIntent, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    waves: tuple[Wave, ...] = ()
    waiting: tuple[Ref, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Note, ...] = ()
    ends: tuple[End, ...] = ()
    suspended: tuple[Suspension, ...] = ()
    figures: FleetFigures = field(default_factory=FleetFigures)
    only: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    forced: Forced = NOTHING_FORCED
    hold_above: Risk | None = None
    unattended: bool = False
    next_moment: str = ""
    written_by: str = ""
    fingerprint: str = ""

    def of(self, *actions: Action) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.action in actions)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for wave in self.waves for step in wave.steps)

    @property
    def active(self) -> tuple[Change, ...]:
        """Changes that apply would carry out."""
        return tuple(
            c
            for c in self.changes
            if c.problem is None and c.action not in (Action.BLOCKED, Action.FROZEN)
        )


def fingerprint(plan: Plan) -> str:
    """Digest of what the plan does: changes, steps, claims, desired digest and serial.

    Prose, ages and observation times are no part of it, so that a new observation makes a plan
    stale only where it changes a step.
    """
    return digest(
        {
            "desired": plan.desired_digest,
            "state": plan.state_id,
            "serial": plan.serial,
            "only": list(plan.only),
            "changes": [
                {
                    "ref": str(c.ref),
                    "action": c.action.value,
                    "digest": c.digest,
                    "basis": c.basis,
                    "risk": c.risk.value,
                    "blocked": c.problem.code if c.problem else "",
                    "former": str(c.former or ""),
                    "id": c.allocation_id,
                    "fields": [encode(f) for f in c.fields],
                    "steps": list(c.steps),
                }
                for c in plan.changes
            ],
            "claims": [encode(claim) for claim in plan.claims],
            "volumes": [encode(volume) for volume in plan.volumes],
            "attachments": [encode(one) for one in plan.attachments],
            "steps": [encode(step) for step in plan.steps],
        }
    )
