"""Answers: what is taken for one, the same for people who are asked and for options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.problem import refuse
from reconciler.model.ref import NAME_LIMIT, is_name
from reconciler.operations.new.contract import (
    AnswerChoice,
    Answers,
    Form,
    NoAnswer,
    Offered,
    Scene,
    SpecQuestion,
)
from reconciler.specs.read.suggest import did_you_mean

LONGEST = 4096
"""Nothing that stands in a spec is longer."""

DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")
UNITS: Mapping[str, str] = {"m": "minutes", "h": "hours", "d": "days"}
SEPARATORS = re.compile(r"[,\s]+")


def answered(
    question: SpecQuestion, scene: Scene, answers: Answers, texts: Sequence[str]
) -> tuple[str, ...]:
    """What these texts answer, each read and none twice. Raises NoAnswer."""
    found: dict[str, str] = {}
    for text in texts:
        if not text.isprintable() or len(text) > LONGEST:
            raise NoAnswer("one line without control characters, of at most 4096 characters")
        read = question.read(text.strip(), scene, answers)
        key = read.split(question.key_ends)[0] if question.key_ends else read
        if key in found:
            raise NoAnswer(f"{key} is named twice")
        found[key] = read
    return tuple(found.values())


def chosen(question: SpecQuestion, scene: Scene, answers: Answers, text: str) -> tuple[str, ...]:
    """What somebody has typed, where a number stands for the choice that it is before."""
    offered = question.choices(scene, answers)
    if question.many and offered:
        texts = [word for word in SEPARATORS.split(text) if word]
    else:
        texts = [text]
    return answered(question, scene, answers, [_by_number(one, offered) for one in texts])


def _by_number(text: str, offered: Sequence[AnswerChoice]) -> str:
    """`2`, or `2:ro` for choices that take more words."""
    number, colon, rest = text.partition(":")
    if not (offered and number.isascii() and number.isdecimal()):
        return text
    if not 1 <= int(number[:6]) <= len(offered):
        raise NoAnswer(f"there is no choice {number[:6]}: 1 to {len(offered)}")
    return f"{offered[int(number) - 1].word}{colon}{rest}"


def from_options(
    form: Form,
    scene: Scene,
    given: Mapping[str, Sequence[str]],
    *,
    may_ask: bool,
    called: Mapping[str, str] = MappingProxyType({}),
) -> Answers:
    """The answers that options give, and defaults where nobody is asked.

    `called` are other words for options, by question.

    One whose meaning is a matter of a question that is still open is left to whoever asks that.
    Raises ProblemError `usage` for one that is none, and, unless somebody `may_ask`, for all that
    are missing.
    """
    answers = Answers()
    missing: list[str] = []
    for question in form.questions:
        texts = [text for text in given.get(question.name, ()) if text]
        if not texts and not may_ask and not missing and is_due(question, answers):
            default = question.default(scene, answers)
            texts = [default] if default else []
        if not texts:
            due = question.required and is_due(question, answers)
            missing += [called.get(question.name, question.flag)] if due else []
        elif is_due(question, answers):
            answers = answers.with_answer(
                question.name, _checked(question, scene, answers, texts, called)
            )
    if missing and not may_ask:
        raise refuse(
            "usage",
            f"a new {form.kind} needs {', '.join(missing)}",
            f"give what is missing, or run it at a terminal to be asked; see: gpuaas new"
            f" {form.kind} --help",
        )
    return answers


def _checked(
    question: SpecQuestion,
    scene: Scene,
    answers: Answers,
    texts: Sequence[str],
    called: Mapping[str, str],
) -> tuple[str, ...]:
    try:
        return answered(question, scene, answers, texts)
    except NoAnswer as error:
        flag = called.get(question.name, question.flag)
        raise refuse("usage", f"{flag}: {error}", question.help) from error


def is_due(question: SpecQuestion, answers: Answers) -> bool:
    """Whether it means anything by what was answered before."""
    return not question.needs or bool(answers.one(question.needs))


# -- what texts are read as


def among(offered: Offered, what: str) -> Callable[[str, Scene, Answers], str]:
    """One of what is offered, and nothing else."""

    def read(text: str, scene: Scene, answers: Answers) -> str:
        words = [one.word for one in offered(scene, answers)]
        if text in words:
            return text
        hint = did_you_mean(text, words) or why_none(scene, what)
        raise NoAnswer(f"{text!r} is no {what} to choose; {hint}")

    return read


def why_none(scene: Scene, what: str) -> str:
    """Documents with errors are not offered, and who misses one should know."""
    left = f"; {len(scene.desired.frozen)} documents have errors: gpuaas validate"
    return f"there is no {what} to choose{left if scene.desired.frozen else ''}"


def name_of(taken: Callable[[Scene, Answers, str], str]) -> Callable[[str, Scene, Answers], str]:
    """A legal name, which nothing has yet: `taken` says what has it."""

    def read(text: str, scene: Scene, answers: Answers) -> str:
        if not is_name(text):
            raise NoAnswer(
                f"{text!r} is no name: lower case letters, digits and single hyphens, a letter"
                f" first, at most {NAME_LIMIT}"
            )
        if why := taken(scene, answers, text):
            raise NoAnswer(why)
        return text

    return read


def number_of(least: int, most: int) -> Callable[[str, Scene, Answers], str]:
    def read(text: str, scene: Scene, answers: Answers) -> str:
        if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
            raise NoAnswer(f"{text!r} is no whole number")
        if not least <= int(text) <= most:
            raise NoAnswer(f"{text} is not from {least} to {most}")
        return str(int(text))

    return read


def one_line(longest: int = 256) -> Callable[[str, Scene, Answers], str]:
    def read(text: str, scene: Scene, answers: Answers) -> str:
        if not text.strip() or len(text) > longest:
            raise NoAnswer(f"one line of 1 to {longest} characters")
        return text

    return read


def end_in_time(text: str, scene: Scene, answers: Answers) -> str:
    """A moment ahead, a length of time from now, or `none`."""
    if text == "none":
        return text
    if found := DURATION.fullmatch(text):
        ahead = scene.now + timedelta(**{UNITS[found[2]]: int(found[1])})
        return format_moment(_whole_hour(ahead) if found[2] != "m" else ahead)
    moment = parse_moment(text)
    if moment is None:
        raise NoAnswer(
            f"{text!r} is no time: as in 2027-01-31T00:00:00Z, or a length such as 24h or 14d"
        )
    if moment <= scene.now:
        raise NoAnswer(f"{format_moment(moment)} is over already")
    return format_moment(moment)


def _whole_hour(moment: datetime) -> datetime:
    whole = moment.replace(minute=0, second=0, microsecond=0)
    return whole if whole == moment else whole + timedelta(hours=1)
