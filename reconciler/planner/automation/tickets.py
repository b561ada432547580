"""Tickets: the IDs by which held changes are approved, and what was approved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from reconciler.model.plan.approval import APPROVABLE, fingerprint_of_all, short_id
from reconciler.model.plan.plan import Change
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.planner.context import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Tickets:
    """Fingerprints by ref: of what is held and may be approved, and of what somebody approved."""

    held: Mapping[Ref, str] = field(default_factory=dict)
    approved: Mapping[Ref, str] = field(default_factory=dict)


def find_tickets(
    situation: Situation,
    fingerprints: Mapping[Ref, str],
    refused: Mapping[Ref, Problem],
) -> Tickets:
    """`fingerprints` are of tasks; one is approved as that, whatever else changes about its ref."""
    held = {
        one.ref: situation.fingerprint(one)
        for one in situation.differences
        if one.ref in refused and refused[one.ref].code in APPROVABLE
    }
    approved = {ref: one for ref, one in situation.approved.items() if ref not in refused}
    for ref, fingerprint in fingerprints.items():
        if ref in refused and refused[ref].code in APPROVABLE:
            held[ref] = fingerprint
        elif fingerprint in situation.consents.get(ref, ()):
            approved[ref] = fingerprint
    return Tickets(held=held, approved=approved)


def with_tickets(changes: Iterable[Change], tickets: Tickets) -> Iterator[Change]:
    """The changes, each held one with the IDs by which it can be approved.

    One ID is for the change alone, the other for all that are held for the same reason.
    """
    changes = list(changes)
    groups: dict[str, set[str]] = defaultdict(set)
    for one in changes:
        if one.problem is not None and one.ref in tickets.held:
            groups[one.problem.code].add(tickets.held[one.ref])
    together = {
        code: f"all {len(group)}: {short_id(fingerprint_of_all(group))}"
        for code, group in groups.items()
        if len(group) > 1
    }
    for one in changes:
        fingerprint = tickets.held.get(one.ref, "")
        if one.problem is not None and fingerprint:
            hint = _hint(one.problem, fingerprint, together.get(one.problem.code, ""))
            problem = replace(one.problem, hint=hint)
            yield replace(one, fingerprint=fingerprint, problem=problem)
        elif one.problem is None and one.ref in tickets.approved:
            yield replace(one, consent=tickets.approved[one.ref])
        else:
            yield one


def _hint(problem: Problem, fingerprint: str, together: str) -> str:
    words = (f"gpuaas approve {short_id(fingerprint)} --reason TEXT", together)
    return f"{problem.hint}; or {', '.join(filter(None, words))}"
