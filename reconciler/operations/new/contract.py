"""The form of a kind: the questions whose answers make its spec, and how they make it.

A form asks nobody and writes nothing. Who is at a terminal is asked its questions one by one, and
each of them is an option for who is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from reconciler.kinds.checks.secrecy import concealed
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.operations.fleet import Fleet
from reconciler.operations.inventory.stock import Stock

Confirm = Callable[[tuple[str, ...]], bool]
"""Asked whether keys that a host shows are its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What answers are chosen from: specs and, where there is a state, what is free by it.

    `me` is the User who is asked, empty where nobody can say who that is.
    """

    fleet: Fleet
    desired: Desired
    now: datetime
    stock: Stock | None = None
    me: str = ""
    confirm: Confirm = field(default=lambda keys: False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What was answered, by question; a question without an answer was left open."""

    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def one(self, name: str) -> str:
        return next(iter(self.given.get(name, ())), "")

    def all(self, name: str) -> tuple[str, ...]:
        return self.given.get(name, ())

    def with_answer(self, name: str, words: Iterable[str]) -> Answers:
        return Answers(given={**self.given, name: tuple(words)})


LONGEST_TOLD, HEAD = 300, 120
"""So much of a reason is told, and so much of its beginning where its middle is left out."""


class NoAnswer(ValueError):
    """Why a text is no answer, for the person who gave it; however long that text was, and
    without it where it looks like a secret.
    """

    def __init__(self, why: str) -> None:
        why = concealed(why)
        long = len(why) > LONGEST_TOLD
        super().__init__(f"{why[:HEAD]}…{why[HEAD - LONGEST_TOLD :]}" if long else why)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChoice:
    """One answer that is offered, and what speaks for it or against it."""

    word: str
    note: str = ""


Offered = Callable[[Scene, Answers], Sequence[AnswerChoice]]


def nothing_offered(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return ()


def no_default(scene: Scene, answers: Answers) -> str:
    return ""


def any_text(text: str, scene: Scene, answers: Answers) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecQuestion:
    """One question of a form; its option is called like it.

    `read` makes an answer of a text, or raises NoAnswer. `choices` are offered; whether others
    are answers too is a matter of `read`. One that is not `asked` is an option alone. `needs` names
    a question without whose answer this one means nothing. What stands before `key_ends` is
    said once among many answers; without it, the whole of each.
    """

    name: str
    step: str
    asks: str
    help: str
    metavar: str = "NAME"
    required: bool = False
    many: bool = False
    asked: bool = True
    needs: str = ""
    key_ends: str = ""
    choices: Offered = nothing_offered
    default: Callable[[Scene, Answers], str] = no_default
    read: Callable[[str, Scene, Answers], str] = any_text

    @property
    def flag(self) -> str:
        return "NAME" if self.name == NAME else f"--{self.name}"


NAME, PROJECT = "name", "project"
"""Questions that make the ref. The name is the argument of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some entries of a spec, and the comment above them: words of this program, never of others.

    Without entries the comment stands alone.
    """

    comment: str
    entries: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDraft:
    """The text of a new file, and the documents that it must be read as; the last is what is new.

    `notes` are for the person and not for the file.
    """

    text: str
    documents: tuple[Mapping[str, object], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """`facts` says of the finished resource what no YAML shows: its price, what is kept and lost.

    `folder` is where such documents usually stand below the spec root; one that stands `apart` has
    a folder of its own there, whatever others have. `gate` is the feature without which this
    version only prints such a document.
    """

    kind: str
    about: str
    questions: tuple[SpecQuestion, ...]
    draft: Callable[[Scene, Answers], SpecDraft]
    facts: Callable[[Scene, Answers, Resource], Mapping[str, str]]
    folder: str = "projects/{project}"
    apart: bool = False
    gate: str = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """In their order, each once; the review is the last."""
        return (*dict.fromkeys(one.step for one in self.questions if one.asked), REVIEW)

    def ref(self, answers: Answers) -> Ref:
        """A form that does not ask for a project is of a kind that has none."""
        return Ref(self.kind, answers.one(PROJECT), answers.one(NAME))


REVIEW = "review"
