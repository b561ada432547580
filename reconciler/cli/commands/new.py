"""`gpuaas new`: a command for each form, whose questions are its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from reconciler.cli.command import Command, Reply, Session, command, group
from reconciler.cli.confirm import key_confirmation
from reconciler.cli.fleet import open_fleet
from reconciler.cli.step_flow import StepFlow
from reconciler.cli.views import new as view
from reconciler.model.problem import ProblemError
from reconciler.model.records import dataclass
from reconciler.operations.new.answers import from_options
from reconciler.operations.new.contract import NAME, Answers, Form, SpecQuestion
from reconciler.operations.new.forms.registry import FORMS
from reconciler.operations.new.new import (
    NewSpec,
    insist_on_place,
    insist_on_supported,
    prepare,
    scene_of,
    write,
)

GIVEN = "answer_"
"""Before the name of a question, as a parameter of the command."""

HELP = """{about}

At a terminal you are asked, step by step: {steps}. Each question has an option, and one that is
given is not asked; --yes asks nothing at all. Without a terminal, options and defaults are all
there is. The file is new, nothing is written over, and nothing happens before it is applied.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWish:
    """`file` is where it is to be written, if that was said."""

    file: Path | None
    printed: bool
    yes: bool


@group("new")
def new() -> None:
    """Write a new spec, step by step: an allocation, a storage, a grant and more.

    The document is judged with the whole fleet around it before it is written, as commented YAML,
    into a file of its own. Specs are files: no host and no state is touched.
    """


def _command(form: Form) -> Command:
    def run(
        session: Session,
        *,
        file: Path | None,
        printed: bool,
        commit: bool,
        yes: bool,
        **given: str | tuple[str, ...],
    ) -> Reply:
        if printed and commit:
            raise click.UsageError("--print writes nothing that could be committed: give one")
        if not printed:
            insist_on_supported(form)
        insist_on_place(open_fleet(session.folder), file, commit=commit)
        made = _made(form, session, _texts(given), NewWish(file=file, printed=printed, yes=yes))
        if printed:
            if not session.wants_document:
                session.screen.tell(view.facts(made))
            return Reply(result=made, raw=made.yaml)
        done = write(open_fleet(session.folder), made, commit=commit)
        return Reply(problems=done.problems, result=done, lines=view.lines(done))

    run.__doc__ = HELP.format(about=form.about, steps=", ".join(form.steps))
    made = command(form.kind.replace("_", "-"), "text", "json", parent=new)(run)
    made.params[:0] = [
        click.Argument(["name"], required=False, default="", metavar="[NAME]"),
        *(_option(form, one) for one in form.questions if one.name != NAME),
        *_common(),
    ]
    made.writes = True
    return made


def _common() -> list[click.Parameter]:
    """What is done with the document."""
    path = click.Path(path_type=Path)
    return [
        click.Option(
            ["--file"],
            type=path,
            metavar="FILE",
            help="New file for it; by default one of its own, beside those that are like it.",
        ),
        click.Option(
            ["--print", "printed"], is_flag=True, help="Print the document, and write nothing."
        ),
        click.Option(["--commit"], is_flag=True, help="Commit the file, and nothing else."),
        click.Option(["--yes"], is_flag=True, help="Ask nothing; options and defaults are all."),
    ]


def _option(form: Form, question: SpecQuestion) -> click.Option:
    return click.Option(
        [question.flag, GIVEN + question.name.replace("-", "_")],
        metavar=question.metavar,
        multiple=question.many,
        default=None if question.many else "",
        help=question.help,
        shell_complete=_completion(form, question),
    )


def _completion(
    form: Form, question: SpecQuestion
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Words that may be chosen, by what stands on the line already; none where that is unclear."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        folder = getattr(ctx.obj, "folder", "")
        try:
            scene = scene_of(open_fleet(Path(folder) if folder else None))
            given = {key: value for key, value in ctx.params.items() if key.startswith(GIVEN)}
            texts = _texts(given)
            others = {name: words for name, words in texts.items() if name != question.name}
            answers = from_options(form, scene, others, may_ask=True)
        except ProblemError:
            return []
        words = (one.word for one in question.choices(scene, answers))
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _texts(given: Mapping[str, str | tuple[str, ...] | None]) -> Mapping[str, tuple[str, ...]]:
    """What was given, by question."""
    texts = {key: (said,) if isinstance(said, str) else said or () for key, said in given.items()}
    return {
        key.removeprefix(GIVEN).replace("_", "-"): tuple(filter(None, words))
        for key, words in texts.items()
    }


def _made(
    form: Form, session: Session, texts: Mapping[str, tuple[str, ...]], wish: NewWish
) -> NewSpec:
    may_ask = session.screen.can_converse and not wish.yes and not session.wants_document
    scene = scene_of(open_fleet(session.folder), key_confirmation(session, "the host"))
    answers = from_options(form, scene, texts, may_ask=may_ask)

    def prepared(answers: Answers) -> NewSpec:
        return prepare(form, scene, answers, wish.file)

    if not may_ask:
        return prepared(answers)
    with StepFlow(session.screen, form, texts) as flow:
        return flow.run(scene, answers, prepared, confirm=not wish.printed)


for _form in FORMS.values():
    _command(_form)
