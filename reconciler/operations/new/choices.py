"""Choices that several forms offer: projects, their people, and names that are still free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.project import PROJECTS, ProjectSpec, Role
from reconciler.kinds.user import USERS
from reconciler.model.ref import PROJECT_KINDS, Ref
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import among, name_of
from reconciler.operations.new.contract import (
    NAME,
    PROJECT,
    AnswerChoice,
    Answers,
    Scene,
    SpecQuestion,
)


def one_of(*words: str) -> Callable[[Scene, Answers], Sequence[AnswerChoice]]:
    """The same words for everybody."""
    offered = tuple(AnswerChoice(word=word) for word in words)
    return lambda scene, answers: offered


YES_NO = one_of("yes", "no")


def project_of(scene: Scene, answers: Answers) -> Resource[ProjectSpec] | None:
    return PROJECTS.get(scene.desired, answers.one(PROJECT))


def projects(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """Those whose member is asked, or all where that says nothing."""
    every = tuple(PROJECTS.of(scene.desired))
    own = tuple(one for one in every if scene.me in {each.user for each in one.spec.members})
    return tuple(AnswerChoice(word=one.ref.name, note=_of_project(one)) for one in own or every)


def _of_project(one: Resource[ProjectSpec]) -> str:
    label = one.spec.display_name
    return label if label != one.ref.name else f"tenant {one.spec.tenant}"


def every_project(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(AnswerChoice(word=one.ref.name) for one in PROJECTS.of(scene.desired))


def only_project(scene: Scene, answers: Answers) -> str:
    offered = projects(scene, answers)
    return offered[0].word if len(offered) == 1 else ""


def members(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """People of the project."""
    project = project_of(scene, answers)
    known = {one.ref.name: one.spec.display_name for one in USERS.of(scene.desired)}
    return tuple(
        AnswerChoice(word=one.user, note=_of_member(one.role, known[one.user], one.user))
        for one in (project.spec.members if project else ())
        if one.user in known
    )


def _of_member(role: Role, label: str, name: str) -> str:
    return f"{role}, {label}" if label != name else role


def me_if_member(scene: Scene, answers: Answers) -> str:
    return scene.me if scene.me in {one.word for one in members(scene, answers)} else ""


def users(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(
        AnswerChoice(word=one.ref.name, note=label if label != one.ref.name else "")
        for one in USERS.of(scene.desired)
        for label in [one.spec.display_name]
    )


def allocations(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """Those of the project."""
    return tuple(
        AnswerChoice(word=one.ref.name, note=f"{one.spec.sku}, owner {one.spec.owner}")
        for one in ALLOCATIONS.of(scene.desired)
        if one.ref.project == answers.one(PROJECT)
    )


def project_question(step: str) -> SpecQuestion:
    return SpecQuestion(
        name=PROJECT,
        step=step,
        asks="Project",
        help="Project it belongs to; by default the only one, or the only one of yours.",
        required=True,
        choices=projects,
        default=only_project,
        read=among(every_project, "project"),
    )


def name_question(
    kind: str, step: str, default: Callable[[Scene, Answers], str] = lambda scene, answers: ""
) -> SpecQuestion:
    """The name of what is new, which nothing else of its kind and project has."""

    def taken(scene: Scene, answers: Answers, name: str) -> str:
        ref = Ref(kind, answers.one(PROJECT) if kind in PROJECT_KINDS else "", name)
        if not scene.desired.names(ref):
            return ""
        found = scene.desired.resources.get(ref)
        where = f", in {found.file}" if found else ""
        return f"{ref} is there already{where}; to change it: gpuaas edit {ref}"

    return SpecQuestion(
        name=NAME,
        step=step,
        asks="Name",
        help="Name of what is new: lower case letters, digits and hyphens.",
        required=True,
        needs=PROJECT if kind in PROJECT_KINDS else "",
        default=default,
        read=name_of(taken),
    )


def money(amount: Decimal, currency: str) -> str:
    """An exact amount with at least two places."""
    text = format(amount, "f")
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')} {currency}"
