"""The form of an App: an application on allocations of its project, by a manifest's version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reconciler.kinds.app import AppSpec, MemberRole
from reconciler.kinds.app_manifest import APP_MANIFESTS
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import among
from reconciler.operations.new.choices import allocations, name_question, project_question
from reconciler.operations.new.contract import (
    PROJECT,
    AnswerChoice,
    Answers,
    Form,
    NoAnswer,
    Part,
    Scene,
    SpecDraft,
    SpecQuestion,
)
from reconciler.operations.new.text import compose

APP, PLACE = "app", "place"
PARAMETER = re.compile(r"[a-z][0-9A-Za-z]{0,63}")
HEADING = "An application that runs on allocations. Each key with its meaning: gpuaas schema app"


def manifests(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(
        AnswerChoice(word=one.ref.name, note=f"version {one.spec.version}")
        for one in APP_MANIFESTS.of(scene.desired)
    )


def version_of_manifest(scene: Scene, answers: Answers) -> str:
    found = APP_MANIFESTS.get(scene.desired, answers.one("manifest"))
    return found.spec.version if found else ""


def version(text: str, scene: Scene, answers: Answers) -> str:
    known = version_of_manifest(scene, answers)
    if text != known:
        raise NoAnswer(f"{answers.one('manifest')} is at version {known}, not {text!r}")
    return text


def member(text: str, scene: Scene, answers: Answers) -> str:
    """`ALLOCATION` or `ALLOCATION:ROLE`; a node unless a role is named."""
    name, colon, role = text.partition(":")
    found = among(allocations, "allocation")(name, scene, answers)
    if colon and role not in list(MemberRole):
        raise NoAnswer(f"{role!r} is no role: {', '.join(MemberRole)}")
    return f"{found}:{role or MemberRole.NODE}"


def parameter(text: str, scene: Scene, answers: Answers) -> str:
    name, equals, value = text.partition("=")
    if not equals or not value or not PARAMETER.fullmatch(name):
        raise NoAnswer(f"{text!r} is no parameter: write it as in model=llama")
    return text


def draft(scene: Scene, answers: Answers) -> SpecDraft:
    return compose(FORM.ref(answers), HEADING, tuple(_parts(answers)))


def _parts(answers: Answers) -> Iterator[Part]:
    yield Part(
        comment="What runs.",
        entries={"manifest": answers.one("manifest"), "version": answers.one("version")},
    )
    pairs = (one.partition(":") for one in answers.all("member"))
    members = [{"allocation": name, "role": role} for name, _, role in pairs]
    yield Part(comment="Where it runs.", entries={"members": members})
    if given := answers.all("param"):
        values = {name: value for name, _, value in (one.partition("=") for one in given)}
        yield Part(comment="Values for the manifest; no secrets.", entries={"params": values})


def facts(scene: Scene, answers: Answers, resource: Resource[AppSpec]) -> Mapping[str, str]:
    return {"lasts": "what it writes into attached storage"}


FORM = Form(
    kind="app",
    about="An application that runs on allocations.",
    gate="apps",
    questions=(
        project_question(APP),
        SpecQuestion(
            name="manifest",
            step=APP,
            asks="Manifest",
            help="AppManifest to run.",
            required=True,
            choices=manifests,
            read=among(manifests, "manifest"),
        ),
        SpecQuestion(
            name="version",
            step=APP,
            asks="Version",
            help="Version of the manifest; by default the one that it is at.",
            metavar="VERSION",
            required=True,
            needs="manifest",
            default=version_of_manifest,
            read=version,
        ),
        name_question("app", APP),
        SpecQuestion(
            name="member",
            step=PLACE,
            asks="Allocations it runs on",
            help="Allocation that it runs on, as NAME or NAME:ROLE; may be repeated.",
            metavar="ALLOCATION[:ROLE]",
            required=True,
            many=True,
            key_ends=":",
            needs=PROJECT,
            choices=allocations,
            read=member,
        ),
        SpecQuestion(
            name="param",
            step=PLACE,
            asks="Value for the manifest, as NAME=VALUE",
            help="Value for the manifest, as NAME=VALUE; may be repeated.",
            metavar="NAME=VALUE",
            many=True,
            key_ends="=",
            asked=False,
            read=parameter,
        ),
    ),
    draft=draft,
    facts=facts,
)
