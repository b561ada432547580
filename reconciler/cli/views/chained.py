"""The tenants of a slot as text, one after the other, each with its proof or override."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, count, dim, line, strong
from reconciler.cli.views import cleaned
from reconciler.model.state.tenancy import Tenancy, Tried
from reconciler.operations.allocation.proof import Chain

INDENT, LABEL = 5, 8


def lines(found: Chain, *, everything: bool = False) -> Iterator[TextLine]:
    yield line(strong(found.place), f"   {count(len(found.tenancies), 'tenant')}")
    for number, one in enumerate(found.tenancies, start=1):
        yield BLANK
        yield from _tenancy(number, one, everything=everything)


def _tenancy(number: int, one: Tenancy, *, everything: bool) -> Iterator[TextLine]:
    where = f"  {one.node}/{one.slot or '*'}"
    yield line(f"{number:>3}. ", strong(one.ref), where, hang=INDENT)
    yield _fact("was", f"{one.login}, id {one.allocation_id}, of {one.project}")
    yield _fact("had it", f"{one.since} to {one.freed_at or f'now ({one.state})'}")
    shown = one.tried if everything else one.tried[-1:]
    if hidden := len(one.tried) - len(shown):
        yield _fact("before", f"{count(hidden, 'proof')} not passed: --all shows it")
    for tried in shown:
        yield from _proof(tried)
    if one.actor:
        word = f"without a proof, by the word of {one.actor} at {one.said_at}: {one.reason}"
        yield _fact("freed", Span(word, Style.WARN))
    elif one.freed_by:
        yield _fact("freed", f"by proof {one.freed_by}")
    elif not one.tried:
        yield _fact("proof", "none yet")


def _proof(tried: Tried) -> Iterator[TextLine]:
    came = Span("passed", Style.GOOD) if tried.passed else Span("not passed", Style.BAD)
    yield _fact("proof", f"{tried.proof}  ", came, f"  {tried.at}  told by the {tried.source}")
    for check in cleaned.checks(tried.checks):
        yield TextLine((Span(" " * INDENT), *check.spans), check.hang + INDENT)


def _fact(label: str, *words: str | Span) -> TextLine:
    return line(" " * INDENT, dim(column(label, LABEL)), *words, hang=INDENT + LABEL)
