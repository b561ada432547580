"""A plan as Markdown, for a review in a forge.

Everything foreign stands in code spans: it cannot format, link or mention anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reconciler.cli.text import escape
from reconciler.cli.views import ends, suspended
from reconciler.cli.views.plan_words import (
    advice,
    apart,
    details,
    fact,
    group_details,
    group_fact,
    header,
    short,
    summary,
)
from reconciler.cli.views.problems import where
from reconciler.cli.views.sections import Section, sections
from reconciler.model.plan.plan import Plan, Risk


def text(plan: Plan, at_least: Risk = Risk.SAFE, *, expand: bool = False) -> str:
    """What a new version of the program brings is told in groups, unless they are to `expand`."""
    return "\n".join(_lines(plan, at_least, expand)) + "\n"


def code(content: str) -> str:
    """A code span that `content` cannot leave, whatever backticks it holds."""
    shown = escape(content)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if longest else ""
    return f"{fence}{edge}{shown}{edge}{fence}" if shown else ""


def _lines(plan: Plan, at_least: Risk, expand: bool) -> Iterator[str]:
    yield f"### gpuaas plan {code(short(plan))}"
    yield ""
    yield code(header(plan))
    yield ""
    if plan.problems:
        yield f"#### ! PROBLEMS ({len(plan.problems)})"
        yield ""
        for problem in plan.problems:
            place = where(problem.source) or problem.ref
            yield f"- **{problem.severity.value}** {code(place)} {code(problem.message)}".strip()
            if problem.hint:
                yield f"  - hint: {code(problem.hint)}"
        yield ""
    for section in sections(plan, at_least):
        yield from _section(section, plan, expand)
        yield ""
    for word in plan.suspended:
        yield f"- suspended {code(suspended.told(word))}"
    if plan.suspended:
        yield ""
    if plan.ends:
        yield f"#### {code('…')} ENDS ({len(plan.ends)}): by themselves"
        yield ""
        for end in plan.ends:
            yield f"- {code(str(end.ref))} {code(ends.told(end, plan.made_at))}"
        yield ""
    if plan.notes:
        yield f"#### {code('≠')} DRIFT ({len(plan.notes)}): reported, no more"
        yield ""
        for note in plan.notes:
            told = " · ".join(filter(None, (note.text, note.accepted)))
            yield f"- {code(str(note.ref))} {code(note.topic)} {code(told)}"
        yield ""
    if silent := plan.figures.silent:
        yield f"#### {code('?')} UNKNOWN ({len(silent)}): nothing is assumed about them"
        yield ""
        for name, said in silent.items():
            yield f"- {code(f'node/{name}')} {code(said)}"
        yield ""
    for one in filter(None, (*summary(plan), advice(plan))):
        yield f"{code(one)}  "


def _section(section: Section, plan: Plan, expand: bool) -> Iterator[str]:
    title = f"{code(section.word.symbol)} {section.word.title} ({len(section.changes)})"
    yield f"#### {title}: {section.note}"
    yield ""
    single, groups = (section.changes, []) if expand else apart(section.changes)
    for change in single:
        yield f"- {code(str(change.ref))} {code(fact(change))}".rstrip()
        yield from _details(details(change))
    for group in groups:
        yield f"- {code(group_fact(group, plan))}"
        yield from _details(group_details(group))


def _details(told: Iterable[tuple[str, str]]) -> Iterator[str]:
    for label, content in told:
        yield f"  - {escape(label)}: {code(content)}"
