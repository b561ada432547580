"""A new document: the pages of its questions, its review, and what comes after it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.cli.text import (
    BLANK,
    Span,
    Style,
    TextLine,
    cells,
    column,
    conceal,
    dim,
    line,
    strong,
)
from reconciler.cli.views import next_steps
from reconciler.cli.views import problems as problems_view
from reconciler.operations.new.contract import (
    AnswerChoice,
    Answers,
    Form,
    SpecQuestion,
    nothing_offered,
)
from reconciler.operations.new.new import NewSpec

LABEL = 9
WIDEST_CHOICE = 24
LONGEST_ANSWER = 60


def head(form: Form, step: str, answers: Answers) -> Iterator[TextLine]:
    """Where one is: the steps, and what was answered so far."""
    yield line(strong(f"new {form.kind}"), dim("   Ctrl-C leaves, and nothing is written"), hang=2)
    spans: list[str | Span] = []
    for word in form.steps:
        spans += [" · "] if spans else []
        spans.append(strong(f"[{word}]") if word == step else dim(word))
    yield line(*spans)
    yield BLANK
    said = {one.name: answers.all(one.name) for one in form.questions}
    for name, words in said.items():
        if words:
            yield line(dim(column(name, LABEL)), _short(", ".join(words)), hang=LABEL)
    if any(said.values()):
        yield BLANK


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_ANSWER else f"{text[: LONGEST_ANSWER - 1]}…"


def offers(question: SpecQuestion) -> bool:
    """Whether it is a question of choosing."""
    return question.choices is not nothing_offered


def question(
    asked: SpecQuestion, offered: Sequence[AnswerChoice], number: int
) -> Iterator[TextLine]:
    """The choices, each with the number that stands for it."""
    yield line(strong(asked.asks), hang=2)
    width = min(WIDEST_CHOICE, max((cells(one.word) for one in offered), default=0))
    for at, one in enumerate(offered, 1):
        yield line(f"{at:>4}  ", strong(column(one.word, width + 1)), f" {one.note}", hang=6)
    if number > len(offered):
        yield line(dim(f"      and {number - len(offered)} more: type a name"), hang=6)
    if offers(asked) and not number:
        yield line(dim("      there is nothing to choose here"), hang=6)
    yield BLANK


def prompt(asked: SpecQuestion, default: str, said: Sequence[str]) -> TextLine:
    offered = "number or name" if offers(asked) else asked.metavar
    many = ", several with commas" if asked.many and offers(asked) else ""
    if said:
        many = f"; {len(said)} so far, empty: no more"
    empty = f" [{default}]" if default else "" if asked.required or said else " [none]"
    return line(f"{offered}{many}", dim(" (? explains, < goes back)"), f"{empty}:", hang=2)


def note(text: str) -> Iterator[TextLine]:
    """Why something was no answer, or what the question means."""
    yield line(Span("! ", Style.WARN), text, hang=2)
    yield BLANK


def review(made: NewSpec) -> Iterator[TextLine]:
    """The document, its file, its price, and what survives it."""
    for text in made.yaml.splitlines():
        shown = conceal(text)
        yield line(dim(shown) if shown.lstrip().startswith("#") else shown, hang=4)
    yield BLANK
    yield from facts(made)


def facts(made: NewSpec) -> Iterator[TextLine]:
    yield line(dim(column("file", LABEL)), made.file, hang=LABEL)
    for label, text in made.facts.items():
        shown: str | Span = Span(text, Style.WARN) if label == "warning" else text
        yield line(dim(column(label, LABEL)), shown, hang=LABEL)
    for text in made.notes:
        yield line(dim(column("note", LABEL)), text, hang=LABEL)
    yield BLANK
    for problem in made.problems:
        yield from problems_view.one(problem)
        yield BLANK


def lines(made: NewSpec) -> Iterator[TextLine]:
    """What was written, and what comes next."""
    yield line(Span("new ", Style.GOOD), made.ref, hang=2)
    yield from facts(made)
    yield from next_steps.lines(made.file, made.message, made.commit, is_new=True)
