"""A comparison as a comment in a forge: short, the details folded, and of bounded length.

Everything foreign stands in code, by Markdown or by HTML: it cannot format, link or mention
anybody. What does not fit is counted, the least important first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as html
from typing import NamedTuple
from urllib.parse import quote

from reconciler.cli.text import escape
from reconciler.cli.views import ends
from reconciler.cli.views.comparison import head, sums, withdrawn
from reconciler.cli.views.plan_markdown import code
from reconciler.cli.views.plan_words import apart, details, fact, group_details, group_fact
from reconciler.cli.views.problems import where
from reconciler.cli.views.sections import Section, sections
from reconciler.model.plan.comparison import Comparison
from reconciler.model.plan.plan import Risk

MOST = 60_000
"""Characters of a comment; GitHub takes 65,536."""

LONGEST, MOST_DETAILS, MOST_PLACE = 300, 24, 200
"""Of one text of somebody else's, and how many details a change has here."""

MARK = "gpuaas-plan"


class _Entry(NamedTuple):
    """One change or problem: `title` is HTML, `facts` are label and text."""

    title: str
    facts: Sequence[tuple[str, str]] = ()

    @property
    def short(self) -> str:
        return f"- {self.title}\n"

    @property
    def full(self) -> str:
        if not self.facts:
            return self.short
        told = "".join(f"- {escape(label)}: {code(text)}\n" for label, text in self.facts)
        return f"<details><summary>{self.title}</summary>\n\n{told}\n</details>\n"


class _Block(NamedTuple):
    """Entries of one sort."""

    title: str
    entries: Sequence[_Entry]


def text(comparison: Comparison, at_least: Risk = Risk.SAFE, *, expand: bool = False) -> str:
    """At most `MOST` characters, and the same first line whatever it says: see `mark`."""
    top = "\n".join(_top(comparison))
    blocks = list(_blocks(comparison, at_least, expand))
    parts, left = [top], MOST - len(top)
    for number, block in enumerate(blocks):
        # The first ones may have more than their share, and what they leave the others have.
        share = left * 2 // (len(blocks) - number + 1)
        shown = _within(block, share)
        parts.append(shown)
        left -= len(shown)
    return "".join(parts)


def mark(comparison: Comparison) -> str:
    """The line by which a program finds the comment of this fleet that it is to overwrite."""
    place = quote(comparison.place.rstrip("/"))[:MOST_PLACE]
    return f"<!-- {MARK} {place.replace('--', '-%2D')} -->" if place else f"<!-- {MARK} -->"


def _top(comparison: Comparison) -> Iterator[str]:
    yield mark(comparison)
    yield f"### gpuaas plan against {code(_cut(comparison.base.revision))}"
    yield ""
    for number, one in enumerate(sums(comparison)):
        shown = code(_cut(one))
        yield f"**{shown}**  " if number == 0 else f"{shown}  "
    yield ""
    for one in head(comparison):
        yield f"{code(_cut(one))}  "
    yield ""
    yield ""


def _blocks(comparison: Comparison, at_least: Risk, expand: bool) -> Iterator[_Block]:
    """What needs somebody, destroys, interrupts, is taken away, is safe, and what is only told."""
    plan = comparison.plan
    if plan.problems:
        title = f"#### {code('!')} PROBLEMS ({len(plan.problems)})"
        yield _Block(title, list(_problems(comparison)))
    rest = []
    for section in sections(plan, at_least):
        block = _section(section, comparison, expand)
        is_safe = section.changes[0].risk is Risk.SAFE and section.changes[0].problem is None
        if is_safe:
            rest.append(block)
        else:
            yield block
    if comparison.withdrawn:
        yield _section(withdrawn(comparison), comparison, expand)
    yield from rest
    if plan.ends:
        told = [_Entry(_named(str(one.ref), ends.told(one, plan.made_at))) for one in plan.ends]
        yield _Block(f"#### {code('…')} ENDS ({len(told)}): by themselves", told)
    if plan.notes:
        told = [_Entry(_named(str(one.ref), f"{one.topic} {one.text}")) for one in plan.notes]
        yield _Block(f"#### {code('≠')} DRIFT ({len(told)}): reported, no more", told)


def _problems(comparison: Comparison) -> Iterator[_Entry]:
    for problem in comparison.plan.problems:
        place = where(problem.source) or problem.ref
        title = f"<b>{problem.severity.value}</b> {_named(place, problem.message)}"
        hint = [("hint", _cut(problem.hint))] if problem.hint else []
        yield _Entry(title, [("code", problem.code), *hint])


def _section(section: Section, comparison: Comparison, expand: bool) -> _Block:
    symbol, title = code(section.word.symbol), section.word.title
    single, groups = (section.changes, []) if expand else apart(section.changes)
    entries = [_Entry(_named(str(one.ref), fact(one)), _facts(details(one))) for one in single]
    entries += [
        _Entry(_named(group_fact(group, comparison.plan)), _facts(group_details(group)))
        for group in groups
    ]
    shown = f"#### {symbol} {title} ({len(section.changes)}): {code(_cut(section.note))}"
    return _Block(shown, entries)


def _facts(told: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    every = [(label, _cut(text)) for label, text in told]
    more = len(every) - MOST_DETAILS
    return every if more <= 0 else [*every[:MOST_DETAILS], ("and", f"{more} more")]


def _within(block: _Block, share: int) -> str:
    """As much as fits: everything in full, else the later ones in a line each, else counted."""
    entries, more = block.entries, "- and {} more of these\n"
    lines = [len(one.short) for one in entries]
    left = share - len(block.title) - len(more) - 12
    waiting = sum(lines)
    shown: list[str] = []
    for entry, line in zip(entries, lines, strict=True):
        waiting -= line
        whole = len(entry.full) + 1
        if whole + waiting <= left:
            shown.append(entry.full + ("\n" if entry.facts else ""))
            left -= whole
        elif line <= left:
            shown.append(entry.short)
            left -= line
        else:
            break
    rest = len(entries) - len(shown)
    told = more.format(rest) if rest else ""
    return f"{block.title}\n\n{''.join(shown)}{told}\n"


def _named(*texts: str) -> str:
    """A name as HTML, where Markdown counts for nothing."""
    # Written out, no text is shorter: what is cut off needs no writing out.
    shown = (_cut(escape(one[: LONGEST + 1])) for one in texts if one)
    return " ".join(f"<code>{html(one, quote=False)}</code>" for one in shown)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
