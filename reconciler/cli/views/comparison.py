"""A comparison for the terminal: what a branch brings and takes away, as a plan shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.cli.text import BLANK, Style, TextLine, count, dim, line, strong
from reconciler.cli.views import plan_json, plan_text
from reconciler.cli.views.plan_words import header, prices
from reconciler.cli.views.sections import LEVELS, ActionWord, Section, counts
from reconciler.model.plan.comparison import Comparison
from reconciler.model.plan.plan import Risk

WITHDRAWN = ActionWord("x", "WITHDRAWN", "withdrawn")


def lines(
    comparison: Comparison, at_least: Risk = Risk.SAFE, *, expand: bool = False
) -> Iterator[TextLine]:
    for text in head(comparison):
        yield line(dim(text), hang=2)
    yield BLANK
    yield from plan_text.body(comparison.plan, at_least, expand=expand)
    section = withdrawn(comparison)
    if section.changes:
        yield from plan_text.block(section, comparison.plan, expand=expand)
        yield BLANK
    yield from foot(comparison)


def foot(comparison: Comparison) -> Iterator[TextLine]:
    """The sums alone."""
    for number, text in enumerate(sums(comparison)):
        yield line(strong(text) if number == 0 else text, hang=2)


def head(comparison: Comparison) -> Iterator[str]:
    """What is compared with what, and what would spoil that."""
    base = comparison.base
    yield header(comparison.plan)
    yield f"against {base.revision} ({base.commit[:7]})"
    if base.ahead:
        has = f"{base.revision} has {count(base.ahead, 'commit')} that this branch has not"
        yield f"{has}: what they do reads as taken away; rebase, or name the merge base"


def withdrawn(comparison: Comparison) -> Section:
    """What the base would do and the branch would not, as a section of its own."""
    return Section(
        word=WITHDRAWN,
        note=f"{comparison.base.revision} would do this, and this branch would not",
        style=Style.WARN,
        changes=comparison.withdrawn,
    )


def sums(comparison: Comparison) -> Iterator[str]:
    """The counts; then risk, capacity and price; then what is none of this branch's business."""
    plan, base = comparison.plan, comparison.base
    counted = [f"{number} {word}" for word, number in counts(plan).items()]
    counted += [f"{len(comparison.withdrawn)} withdrawn"] if comparison.withdrawn else []
    counted += [count(len(plan.problems), "new problem")] if plan.problems else []
    counted += [count(comparison.mended, "problem") + " mended"] if comparison.mended else []
    yield " · ".join(counted) if counted else "this branch changes nothing that is applied"
    if plan.active or comparison.withdrawn:
        risks = Counter(change.risk for change in plan.active)
        named = ", ".join(f"{r.value} {risks[r]}" for r in reversed(LEVELS) if risks[r])
        figures = plan.figures
        gpus = f"GPUs {figures.gpus_held_before} -> {figures.gpus_held_after} of {figures.gpus}"
        risk = f"risk: {named}" if named else ""
        yield "     ".join(filter(None, (risk, gpus, prices(comparison.price_per_hour))))
    if shared := shared_counts(comparison):
        told = ", ".join(f"{number} {word}" for word, number in shared.items())
        number = count(len(comparison.shared), "change")
        verb = "is" if len(comparison.shared) == 1 else "are"
        yield f"{number} of {base.revision} {verb} not applied yet: {told}"


def shared_counts(comparison: Comparison) -> Mapping[str, int]:
    """Changes that the base would make as well, by the word of the summary."""
    return counts(replace(comparison.plan, changes=comparison.shared))


def view(comparison: Comparison) -> dict[str, object]:
    """The `result` of `schemas/plan.schema.json`, with `against` beside the plan of the branch."""
    base = comparison.base
    shown = plan_json.view(comparison.plan)
    shown["pricePerHour"] = dict(comparison.price_per_hour)
    shown["against"] = {
        "revision": base.revision,
        "commit": base.commit,
        "ahead": base.ahead,
        "withdrawn": [plan_json.change_view(change) for change in comparison.withdrawn],
        "shared": dict(shared_counts(comparison)),
        "mended": comparison.mended,
    }
    return shown
