"""Health of allocations: what the host shows of each, as a word and its cause.

Unknown is not absent: of what a host does not tell nothing good is said, and nothing bad.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from reconciler.kinds.node.spec import NODES
from reconciler.model.condition import Condition, Health
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.plan.lifecycle import Phase, Stage
from reconciler.model.records import dataclass
from reconciler.model.rules import holding
from reconciler.model.state.world import Recorded, World
from reconciler.planner.access.login_checks import refusal_of_all, refusals
from reconciler.planner.core.facts import differing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Patient:
    """One allocation, how far it is, and what of it its host shows. `wrong` are facts, not keys."""

    one: Recorded
    stage: Stage
    facts: NodeFacts | None
    cards: frozenset[str]
    wrong: tuple[str | None, ...] = field(default=())

    @property
    def unseen(self) -> bool:
        return self.facts is None or self.facts.gpus is None

    @property
    def lacks_cards(self) -> bool:
        listed = (self.facts.gpus if self.facts else None) or ()
        return not self.cards <= {gpu.uuid for gpu in listed}

    @property
    def shuts_out(self) -> bool:
        everybody = bool(self.one.login) and self.facts is not None and refusal_of_all(self.facts)
        return bool(everybody) or any(refusals(self.one, self.facts))


RULES: tuple[tuple[tuple[Health, str], Callable[[_Patient], bool]], ...] = (
    ((Health.UNKNOWN, "unseen"), lambda it: it.unseen),
    ((Health.DEGRADED, "failed"), lambda it: it.one.phase is Phase.FAILED),
    ((Health.DEGRADED, "unproved"), lambda it: it.stage is Stage.UNPROVED),
    ((Health.UNKNOWN, "in_doubt"), lambda it: it.stage is Stage.IN_DOUBT),
    ((Health.PROGRESSING, ""), lambda it: it.one.phase in (Phase.PROVIDING, Phase.RELEASING)),
    ((Health.DEGRADED, "card_missing"), lambda it: it.lacks_cards),
    ((Health.DEGRADED, "differs"), lambda it: not all(map(is_unknown, it.wrong))),
    ((Health.DEGRADED, "shut_out"), lambda it: it.shuts_out),
    ((Health.PROGRESSING, ""), lambda it: it.one.phase is Phase.QUARANTINED),
    ((Health.UNKNOWN, "untold"), lambda it: bool(it.wrong)),
    ((Health.HEALTHY, ""), lambda it: True),
)
"""The first row that holds is told. What is on its way has its stage for a cause."""


def health_of(one: Recorded, stage: Stage, world: World) -> Condition:
    """Whether its host shows what it must, its cards too."""
    seen = world.observations.get(one.node)
    facts = seen.facts if seen else None
    patient = _Patient(
        one=one,
        stage=stage,
        facts=facts,
        cards=uuids_of(one, world),
        wrong=tuple(shown for _, shown, _ in differing(facts, one.facts)) if facts else (),
    )
    word, cause = next(holding(RULES, patient))
    if word is Health.PROGRESSING:
        cause = str(stage)
    since = _silent_since(seen) if cause == "unseen" else ""
    return Condition(word=word, cause=cause, since=since)


def health_of_begun(stage: Stage, *, at_work: bool) -> Condition:
    """Of what was begun and never recorded: only an apply that lives is known to go on with it."""
    word = Health.PROGRESSING if at_work else Health.UNKNOWN
    return Condition(word=word, cause=str(stage))


def uuids_of(one: Recorded, world: World) -> frozenset[str]:
    """The GPUs of its slots, as its node was recorded: under a claim these do not change."""
    node = NODES.last(world, one.node)
    return frozenset(
        slot.gpu.uuid for slot in (node.slots if node else ()) if slot.name in one.slots
    )


def _silent_since(seen: Observation | None) -> str:
    return seen.unreachable_since if seen is not None and seen.facts is None else ""
