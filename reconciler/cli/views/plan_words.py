"""The sentences of a plan: the header, the facts and details of a change, the last lines.

Plain text without layout, so that the terminal and Markdown say the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from reconciler import __version__
from reconciler.cli.exit_codes import Exit, of_change
from reconciler.cli.text import HIDDEN, conceal, count
from reconciler.cli.views.sections import LEVELS, counts
from reconciler.model.host.capacity import Placement
from reconciler.model.moment import format_age
from reconciler.model.plan.plan import Action, Cause, Change, FieldChange, Plan
from reconciler.model.spec.desired import Origin

CONSENT = "held_for_approval"
"""What waits for a consent alone needs no other name than its risk."""


def header(plan: Plan) -> str:
    """Where specs, state and evidence stand; every number is a fact, with its age if it ages."""
    revision, figures = plan.revision, plan.figures
    commit = revision.commit[:7] or "without a commit"
    tidy = "uncommitted edits" if revision.dirty else "clean" if revision.commit else ""
    about = ", ".join(word for word in (revision.branch, tidy) if word)
    silent = figures.nodes - figures.answered
    heard = [f"{figures.answered} answered", *([f"{silent} unknown"] if silent else ())]
    age = figures.observed_age
    parts = [
        f"specs {commit} ({about})" if about else f"specs {commit}",
        f"state #{plan.serial}",
        "no answer of a host yet" if age is None else f"observed {format_age(age)} ago",
        count(figures.nodes, "node") + (f": {', '.join(heard)}" if age is not None else ""),
    ]
    if plan.only:
        parts.append("only " + ", ".join(plan.only))
    if plan.uncommitted:
        parts.append("uncommitted removals: " + ", ".join(plan.uncommitted))
    if plan.forced.refs:
        parts.append(f"detached by force from {', '.join(plan.forced.refs)}: {plan.forced.why}")
    return " · ".join(parts)


def fact(change: Change) -> str:
    """The one fact beside the ref: the place, and what the planner says of it."""
    if change.action is Action.FROZEN and change.problem is not None:
        return change.problem.message
    parts = [change.summary]
    if change.placement is not None:
        arrow = "-> " if change.action in (Action.CREATE, Action.REPLACE) else ""
        parts.insert(0, arrow + _place(change.placement))
    if of_change(change) is Exit.HELD:
        parts.insert(0, f"{change.action.value}, {change.risk.value}")
        code = change.problem.code if change.problem else CONSENT
        parts[:0] = [code] if code != CONSENT else []
    elif change.problem is not None:
        parts.insert(0, change.problem.code)
    return " · ".join(part for part in parts if part)


def _place(placement: Placement) -> str:
    where = "/".join(filter(None, (placement.node, ",".join(placement.slots))))
    why = placement.why
    if placement.numa:
        numbers = ",".join(str(number) for number in placement.numa)
        why = ", ".join(filter(None, (f"NUMA {numbers}", why)))
    return f"{where} ({why})" if why else where


def details(change: Change) -> Iterator[tuple[str, str]]:
    """Label and text, in reading order: what is wrong, why, what differs, facts, cost.

    Of what is frozen there is no more to say than the one fact: nothing of it changes.
    """
    if change.action is Action.FROZEN and change.problem is not None:
        return
    said = (change.problem.message, change.problem.hint) if change.problem else ()
    yield from ((label, text) for label, text in zip(("says", "next"), said, strict=False) if text)
    if change.former is not None:
        yield "was", str(change.former)
    if "why" not in change.facts and (why := _why(change)):
        yield "why", why
    yield from ((label, text) for label, text in change.facts.items() if text not in said)
    for field in change.fields:
        yield "field", field_text(field)
    if change.price_per_hour and "cost" not in change.facts:
        yield "cost", prices(change.price_per_hour)


def apart(changes: Iterable[Change]) -> tuple[list[Change], list[tuple[Change, ...]]]:
    """Changes that are told one by one; and those that a new version brings, by kind, as groups."""
    single = [change for change in changes if change.cause is not Cause.RERENDERED]
    groups: dict[str, list[Change]] = {}
    for change in changes:
        if change.cause is Cause.RERENDERED:
            groups.setdefault(change.ref.kind, []).append(change)
    return single, [tuple(groups[kind]) for kind in sorted(groups)]


def group_fact(group: Sequence[Change], plan: Plan) -> str:
    """Many lines of one cause as one."""
    by = f"gpuaas {__version__}"
    before = f"state was written by {plan.written_by or 'an earlier version'}"
    if plan.written_by == __version__:
        before = "its templates are others than then"
    if group[0].ref.kind == "node":
        return f"{count(len(group), 'host')}: made ready anew by {by} ({before})"
    hosts = {change.placement.node for change in group if change.placement}
    where = f"{count(len(group), group[0].ref.kind)} on {count(len(hosts), 'host')}"
    return f"{where}: platform files re-rendered by {by} ({before})"


def group_details(group: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """What it means for those who work there, and how to see each."""
    first = group[0]
    if first.problem is not None:
        yield "next", first.problem.hint
    if first.ref.kind != "node":
        yield "hits", "nobody: it interrupts nothing"
    else:
        yield "hits", "new logins, while sshd, PAM and slices are replaced; sessions and work go on"
        yield "safety", "one host first, then the others; put back unless a new login works"
    yield "each", "gpuaas plan --expand"


def _why(change: Change) -> str:
    place = f"{change.file}:{change.line}" if change.line else change.file
    leaves = change.action in (Action.RELEASE, Action.FORGET)
    if place and not change.line and leaves and change.cause is not Cause.EXPIRED:
        place = f"file removed: {place}"
    whence = " ".join(filter(None, (place, _origin(change.origin) if place else "")))
    causes = "caused by " + ", ".join(map(str, change.caused_by)) if change.caused_by else ""
    if change.cause is Cause.RERENDERED:
        causes = f"unchanged, re-rendered by gpuaas {__version__}"
    return "; ".join(filter(None, (whence, causes)))


def _origin(origin: Origin) -> str:
    if origin.doubt is not None:
        return f"by nobody knows whom ({origin.doubt})"
    if not origin.commit:
        return f"not committed, by {origin.author}" if origin.author else ""
    signed = "signed" if origin.signed else "unsigned"
    return f"in {origin.commit[:7]} by {origin.author} ({signed})"


def field_text(field: FieldChange) -> str:
    """`path: before -> after`; a field that is called like a secret only shows that it changed."""
    if hides(field):
        return f"{field.path}: {HIDDEN}"
    if field.before is None:
        return f"+ {field.path}: {_value(field.after)}"
    if field.after is None:
        return f"- {field.path}: {_value(field.before)}"
    return f"{field.path}: {_value(field.before)} -> {_value(field.after)}"


def hides(field: FieldChange) -> bool:
    """Whether the field is called, or a value of it looks, like a secret."""
    return any(
        HIDDEN in conceal(f"{field.path}: {_value(value)}")
        for value in (field.before, field.after)
        if value is not None
    )


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def prices(rates: Mapping[str, str]) -> str:
    return ", ".join(f"{_signed(rate)} {money}/h" for money, rate in sorted(rates.items()))


def _signed(rate: str) -> str:
    return rate if rate.startswith("-") else f"+{rate}"


def summary(plan: Plan) -> Iterator[str]:
    """The sums: counts, then risk with capacity and price."""
    figures = plan.figures
    counted = [f"{number} {word}" for word, number in counts(plan).items()]
    counted += [f"{len(plan.notes)} reported"] if plan.notes else []
    yield " · ".join([*counted, f"{figures.unchanged} unchanged"])
    if plan.active:
        risks = Counter(change.risk for change in plan.active)
        named = ", ".join(f"{r.value} {risks[r]}" for r in reversed(LEVELS) if risks[r])
        gpus = f"GPUs {figures.gpus_held_before} -> {figures.gpus_held_after} of {figures.gpus}"
        yield "     ".join(filter(None, (f"risk: {named}", gpus, prices(total(plan)))))
    elif not plan.changes:
        yield "nothing to do"


def advice(plan: Plan) -> str:
    """What this plan is good for, and how to go on; empty if there is nothing to go on with."""
    if not plan.active:
        return ""
    good = f"plan {short(plan)}, valid for state #{plan.serial} and these facts, once"
    return f"{good}     apply: gpuaas apply   save: --save FILE"


def total(plan: Plan) -> dict[str, str]:
    """The change of the hourly price by currency, over what would be applied."""
    sums: dict[str, Decimal] = {}
    for change in plan.active:
        for money, rate in change.price_per_hour.items():
            sums[money] = sums.get(money, Decimal(0)) + Decimal(rate)
    return {money: str(rate) for money, rate in sums.items() if rate}


def short(plan: Plan) -> str:
    """The first eight digits of the fingerprint, as people read them out."""
    digits = plan.fingerprint.removeprefix("sha256:")[:8]
    return f"{digits[:4]}-{digits[4:]}"
