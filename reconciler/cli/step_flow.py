"""The step flow: the questions of a form on a screen of their own, one after the other.

Nothing is written by it. Whoever leaves, by Ctrl-C, at the end of input or by `no`, leaves every
file as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType

from rich.console import Console

from reconciler.cli.screen import Screen
from reconciler.cli.text import TextLine, line, render
from reconciler.cli.views import new as view
from reconciler.cli.views import problems as problems_view
from reconciler.model.problem import ProblemError, refuse
from reconciler.operations.new.answers import answered, chosen, is_due, why_none
from reconciler.operations.new.contract import (
    REVIEW,
    Answers,
    Form,
    NoAnswer,
    Scene,
    SpecQuestion,
)
from reconciler.operations.new.new import NewSpec

BACK, EXPLAIN = "<", "?"
LEAST_CHOICES, BESIDE, BELOW = 4, 14, 4
"""So many choices are shown on the smallest screen, so many lines stand around them, and so many
are left for notes and the answer.
"""


NO_OPTIONS: Mapping[str, Sequence[str]] = MappingProxyType({})


class GoBack(Exception):
    """Somebody wants the question before."""


class StepFlow:
    """A page a question, drawn anew each time; on a terminal that cannot do so, one below the
    other. `options` answer questions that nobody is asked, as soon as they mean anything.
    """

    def __init__(
        self, screen: Screen, form: Form, options: Mapping[str, Sequence[str]] = NO_OPTIONS
    ) -> None:
        self._screen, self._form, self._options = screen, form, options
        self._console = Console(file=screen.notes, no_color=not screen.color)
        self._full, self._own = screen.is_live, False

    def __enter__(self) -> StepFlow:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._own:
            self._console.set_alt_screen(False)

    def run(
        self, scene: Scene, given: Answers, prepare: Callable[[Answers], NewSpec], *, confirm: bool
    ) -> NewSpec:
        """Ask what is open, then show what comes of it and ask for a yes.

        Raises ProblemError `declined` for a no, and `input_ended` where nobody answers any more.
        """
        questions = [
            one
            for one in self._form.questions
            if not given.all(one.name) and (one.asked or self._options.get(one.name))
        ]
        answers, at, trail = given, 0, list[tuple[int, Answers]]()
        try:
            while True:
                try:
                    if at < len(questions):
                        before, said = answers, self._option(questions[at], scene, answers)
                        answers = said or self._ask(questions[at], scene, answers)
                        trail += [] if said else [(at, before)]
                        at += 1
                        continue
                    return self._review(prepare, answers, confirm=confirm)
                except GoBack:
                    if trail:
                        at, answers = trail.pop()
        except EOFError as error:
            raise refuse(
                "input_ended",
                "the input ended before everything was answered; nothing was written",
                f"run it again, or give answers as options: gpuaas new {self._form.kind} --help",
            ) from error

    def _option(self, question: SpecQuestion, scene: Scene, answers: Answers) -> Answers | None:
        """With the answer that an option gave, or none where it means nothing; None to ask."""
        if not is_due(question, answers):
            return answers
        texts = self._options.get(question.name, ())
        if not texts:
            return None
        try:
            found = answered(question, scene, answers, texts)
        except NoAnswer as error:
            message = f"{question.flag}: {error}"
            raise refuse("usage", message, question.help) from error
        return answers.with_answer(question.name, found)

    def _ask(self, question: SpecQuestion, scene: Scene, answers: Answers) -> Answers:
        offered = question.choices(scene, answers)
        default = question.default(scene, answers)
        if question.required and not offered and view.offers(question):
            raise refuse("not_found", why_none(scene, question.asks.lower()), question.help)
        repeated = question.many and not offered
        said: tuple[str, ...] = ()
        note = ""
        while True:
            most = max(LEAST_CHOICES, self._console.height - BESIDE)
            self._page(
                question.step, answers, view.question(question, offered[:most], len(offered))
            )
            note = self._told(note)
            text = self._answer(view.prompt(question, default, said))
            try:
                if text == EXPLAIN:
                    note = question.help
                elif text == BACK:
                    raise GoBack
                elif not text and (said or not (default or question.required)):
                    return answers.with_answer(question.name, said)
                elif not text and not default:
                    note = "this needs an answer"
                elif repeated and text:
                    said = answered(question, scene, answers, [*said, text])
                else:
                    found = chosen(question, scene, answers, text or default)
                    return answers.with_answer(question.name, found)
            except NoAnswer as error:
                note = str(error)

    def _review(
        self, prepare: Callable[[Answers], NewSpec], answers: Answers, *, confirm: bool
    ) -> NewSpec:
        note = ""
        while True:
            try:
                made = prepare(answers)
            except ProblemError as error:
                self._page(REVIEW, answers, problems_view.refusal(error.problems))
                if self._answer(line(f"{BACK} goes back; anything else leaves:")) == BACK:
                    raise GoBack from error
                raise
            if not confirm:
                return made
            self._page(REVIEW, Answers(), view.review(made))
            note = self._told(note)
            said = self._answer(line(f"Write {made.file}? [yes/no]")).lower()
            if said in ("y", "yes"):
                return made
            if said in ("n", "no"):
                raise refuse("declined", f"{made.file} was not written")
            if said == BACK:
                raise GoBack
            note = f"yes writes the file, no leaves, {BACK} goes back"

    def _page(self, step: str, answers: Answers, lines: Iterable[TextLine]) -> None:
        page = [*view.head(self._form, step, answers), *lines]
        if self._full:
            # What is higher than the screen must be scrolled, which a page of its own cannot be.
            rows = sum(1 + render(one, width=self._console.width).count("\n") for one in page)
            self._turn_to(own=rows + BELOW < self._console.height)
        self._screen.tell(page)

    def _turn_to(self, *, own: bool) -> None:
        """An empty screen of its own, or the one that was there before."""
        if own != self._own:
            self._console.set_alt_screen(own)
            self._own = own
        if own:
            self._console.clear()

    def _told(self, note: str) -> str:
        if note:
            self._screen.tell(view.note(note))
        return ""

    def _answer(self, question: TextLine) -> str:
        return self._screen.answer(question)
