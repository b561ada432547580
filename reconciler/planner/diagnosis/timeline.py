"""The timeline: events and steps put together into operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType

from reconciler.model.state.event import Event, EventType
from reconciler.model.timeline import (
    MOMENTS,
    ON_HOST,
    Operation,
    OperationFacts,
    PhaseTold,
    Standing,
    Steps,
    Under,
    name_of,
)


def operations_of(
    events: Iterable[Event], steps: Steps, under: Under | None = None
) -> tuple[Operation, ...]:
    """The operations of each ref that events are about, oldest first."""
    under = under or Under()
    groups: dict[tuple[str, str], list[Event]] = defaultdict(list)
    waiting: dict[str, Event] = {}
    for event in events:
        if event.type is EventType.WAITING:
            waiting.setdefault(event.ref, event)
            continue
        run = event.run or str((event.after or {}).get("run", ""))
        key = (event.ref, run or f"#{event.sequence}")
        if event.type is EventType.CLAIMED and event.ref in waiting:
            groups[key].append(waiting.pop(event.ref))
        groups[key].append(event)
    told = [_operation(group, steps, under) for group in groups.values()]
    told += [_waiting(event) for event in waiting.values()]
    return tuple(sorted(told, key=lambda one: (one.started, one.sequence)))


def _operation(events: Sequence[Event], steps: Steps, under: Under) -> Operation:
    run = next((event.run for event in events if event.run), "")
    first = next(event for event in events if event.type is not EventType.WAITING)
    deed = _deed(events)
    here = under if under.run == run else Under()
    phases = tuple(_joined(sorted(_phases(events, steps, here), key=lambda one: one.started)))
    state = _worst(phase.state for phase in phases)
    moved = max((moment for phase in phases for moment in (phase.started, phase.ended)), default="")
    return Operation(
        name=name_of(deed, first.type),
        ref=first.ref,
        started=events[0].at,
        ended="" if state is Standing.RUNNING else moved,
        progress=moved,
        sequence=events[-1].sequence,
        actor=first.actor,
        state=state,
        run=run,
        commit=first.commit,
        reason=next((e.reason for e in events if e.reason and e.type not in _CODES), ""),
        phases=phases,
    )


_CODES = frozenset({EventType.STEP_ENDED, EventType.CLAIM_BLOCKED, EventType.CLAIMED})
"""Events whose reason is no person's, and stands with their phase."""


def _waiting(event: Event) -> Operation:
    """Still without room: the one phase that has begun."""
    phase = PhaseTold(name="wait", started=event.at, state=Standing.RUNNING)
    return Operation(
        name="wait",
        ref=event.ref,
        started=event.at,
        progress=event.at,
        sequence=event.sequence,
        actor=event.actor,
        state=Standing.RUNNING,
        commit=event.commit,
        phases=(phase,),
    )


def _deed(events: Sequence[Event]) -> OperationFacts:
    kept = [event for event in events if event.type is EventType.RECORDED]
    begun = [e.after or {} for e in events if e.type is EventType.STEP_STARTED]
    before = (kept[0].before or {}) if kept else {}
    return OperationFacts(
        types=frozenset(event.type for event in events),
        verbs=frozenset(str(told.get("verb", "")) for told in begun),
        action=next((str(told["action"]) for told in begun if "action" in told), ""),
        before=str(before.get("phase", "")),
        after=str((kept[-1].after or {}).get("phase", "")) if kept else "",
    )


def _phases(events: Sequence[Event], steps: Steps, under: Under) -> Iterator[PhaseTold]:
    ends = {
        str((event.after or {}).get("step")): event
        for event in events
        if event.type is EventType.STEP_ENDED
    }
    begun: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        if event.type is EventType.STEP_STARTED:
            begun[(str((event.after or {}).get("node", "")), event.at)].append(event)
    claimed = [event for event in events if event.type is EventType.CLAIMED]
    first = next(iter(claimed), None)
    told: set[tuple[str, str]] = set()
    for event in events:
        after = event.after or {}
        match event.type:
            case EventType.WAITING:
                yield PhaseTold(name="wait", started=event.at, ended=claimed[0].at)
            case EventType.STEP_STARTED:
                key = (str(after.get("node", "")), event.at)
                if key not in told:
                    told.add(key)
                    yield from _on_host(begun[key], ends, steps, under)
            case EventType.STEP_ENDED:
                pass
            case EventType.CLAIMED:
                if event is first:
                    yield _claim(claimed)
            case _:
                yield _moment(event, after)


def _joined(phases: Iterable[PhaseTold]) -> Iterator[PhaseTold]:
    """What was done for each of several slots at one moment is one phase."""
    for (name, started, _), alike in groupby(phases, key=_kind_of):
        found = list(alike)
        if started != found[0].ended or name in ON_HOST.values():
            yield from found
            continue
        details = dict.fromkeys(phase.detail for phase in found if phase.detail)
        yield replace(found[0], detail=", ".join(details))


def _kind_of(phase: PhaseTold) -> tuple[str, str, Standing]:
    return phase.name, phase.started, phase.state


def _on_host(
    begun: Sequence[Event], ends: Mapping[str, Event], steps: Steps, under: Under
) -> Iterator[PhaseTold]:
    """What one host went through for this ref in one wave, as far as it told."""
    node = str((begun[0].after or {}).get("node", ""))
    asked = [str((event.after or {}).get("step")) for event in begun]
    ended = [ends[step] for step in asked if step in ends]
    ticks = next((t for e in ended if (t := (e.after or {}).get("ticks"))), under.ticks.get(node))
    state = _state(ended, len(asked), running=bool(under.run))
    last = "" if state is Standing.RUNNING else max((e.at for e in ended), default="")
    verbs = " > ".join(str((event.after or {}).get("verb")) for event in begun)
    moments = _moments(ticks or {}, begun[0].at)
    for number, (name, since) in enumerate(moments[:-1]):
        detail = verbs if name == "work" else ""
        until = moments[number + 1][1]
        yield PhaseTold(name=name, started=since, ended=until, node=node, detail=detail)
    name, since = moments[-1]
    words = [steps.get((event.run, step)) for event, step in zip(begun, asked, strict=True)]
    codes = dict.fromkeys(event.reason for event in ended if event.reason)
    said = dict.fromkeys(word.message for word in words if word and word.message)
    yield PhaseTold(
        name=name,
        started=since,
        ended=last,
        state=state,
        node=node,
        detail=" · ".join((*([verbs] if name == "work" else ()), *codes, *said)),
        log="\n".join(word.log for word in words if word and word.log),
    )


def _moments(ticks: Mapping[str, object], began: str) -> list[tuple[str, str]]:
    """When each phase on a host began; without a word of it all is one."""
    told = [(ours, str(ticks[word])) for word, ours in ON_HOST.items() if word in ticks]
    return told or [("work", began)]


def _state(ended: Sequence[Event], asked: int, *, running: bool) -> Standing:
    if len(ended) < asked:
        return Standing.RUNNING if running else Standing.UNKNOWN
    return _worst(_STEP_STATES.get(str((e.after or {}).get("state")), "unknown") for e in ended)


_STEP_STATES: Mapping[str, Standing] = MappingProxyType(
    {"done": Standing.DONE, "failed": Standing.FAILED}
)
_GRAVITY = (Standing.RUNNING, Standing.UNKNOWN, Standing.FAILED, Standing.DONE)


def _worst(states: Iterable[Standing | str]) -> Standing:
    found = set(states)
    return next((state for state in _GRAVITY if state in found), Standing.DONE)


def _claim(events: Sequence[Event]) -> PhaseTold:
    """All slots at once, and the rule by which they were chosen."""
    first = events[0]
    places = ", ".join(_place(event.after or {}) for event in events)
    return PhaseTold(
        name=MOMENTS[EventType.CLAIMED],
        started=first.at,
        ended=first.at,
        node=str((first.after or {}).get("node", "")),
        detail=" · ".join(filter(None, (places, first.reason))),
    )


def _place(after: Mapping[str, object]) -> str:
    return "/".join(str(after[key]) for key in ("node", "slot") if after.get(key))


def _moment(event: Event, after: Mapping[str, object]) -> PhaseTold:
    failed = event.type is EventType.CLAIM_BLOCKED or (
        event.type is EventType.PROVED and not after.get("passed")
    )
    kept = event.type is EventType.RECORDED
    what = str(after.get("phase", "")) if kept else _place(after)
    return PhaseTold(
        name=MOMENTS.get(event.type, event.type.value),
        started=event.at,
        ended=event.at,
        state=Standing.FAILED if failed else Standing.DONE,
        node=str(after.get("node", "")),
        detail=" · ".join(filter(None, (what, event.reason))),
    )
