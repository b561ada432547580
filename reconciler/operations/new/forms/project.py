"""The form of a Project: its tenant, its people, and what they may hold and use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.project import ProjectSpec, Role
from reconciler.kinds.sku import SKUS, SkuState
from reconciler.kinds.storage_class import STORAGE_CLASSES
from reconciler.model.ref import KIND_WORDS
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import among, number_of, one_line
from reconciler.operations.new.choices import name_question, users
from reconciler.operations.new.contract import (
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

PROJECT, PEOPLE, LIMITS = "project", "people", "limits"
MOST, MOST_GIB = 1_000_000, 1_000_000_000
HEADING = (
    "A project: people with one purse. Whoever is taken off the list loses the access it"
    " gave. Each key with its meaning: gpuaas schema project"
)


def tenants(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(AnswerChoice(word=one) for one in policy_in(scene.desired).tenants)


def only_tenant(scene: Scene, answers: Answers) -> str:
    offered = tenants(scene, answers)
    return offered[0].word if len(offered) == 1 else ""


def others(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(one for one in users(scene, answers) if one.word != answers.one("owner"))


def member(text: str, scene: Scene, answers: Answers) -> str:
    """`USER` or `USER:ROLE`; a member unless a role is named."""
    name, colon, role = text.partition(":")
    found = among(others, "user")(name, scene, answers)
    if colon and role not in list(Role):
        raise NoAnswer(f"{role!r} is no role: {', '.join(Role)}")
    return f"{found}:{role or Role.MEMBER}"


def skus(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(
        AnswerChoice(word=one.ref.name, note=one.spec.display_name)
        for one in SKUS.of(scene.desired)
        if one.spec.state is SkuState.ACTIVE
    )


def classes(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(
        AnswerChoice(word=one.ref.name, note=", ".join(one.spec.access_modes))
        for one in STORAGE_CLASSES.of(scene.desired)
    )


def draft(scene: Scene, answers: Answers) -> SpecDraft:
    return compose(FORM.ref(answers), HEADING, tuple(_parts(answers)))


def _parts(answers: Answers) -> Iterator[Part]:
    if label := answers.one("display-name"):
        yield Part(comment="What people call it.", entries={"displayName": label})
    yield Part(
        comment="The boundary of isolation and of the bill; one of the Policy's tenants.",
        entries={"tenant": answers.one("tenant")},
    )
    people = [(answers.one("owner"), str(Role.OWNER))]
    people += [(name, role) for name, _, role in (m.partition(":") for m in answers.all("member"))]
    entries = [{"user": name, "role": role} for name, role in people]
    yield Part(
        comment="Who belongs to it: owner, maintainer, member or viewer.",
        entries={"members": entries},
    )
    quota = {"gpus": int(answers.one("gpus"))}
    if size := answers.one("storage-gib"):
        quota["storageGiB"] = int(size)
    yield Part(comment="What it may hold at one time.", entries={"quota": quota})
    entitled = {"skus": list(answers.all("sku"))}
    if named := answers.all("storage-class"):
        entitled["storageClasses"] = list(named)
    yield Part(comment="What it may use; nothing else.", entries={"entitlements": entitled})


def facts(scene: Scene, answers: Answers, resource: Resource[ProjectSpec]) -> Mapping[str, str]:
    spec = resource.spec
    return {
        "people": ", ".join(f"{one.user} ({one.role})" for one in spec.members),
        "limits": f"{spec.quota.gpus} GPUs, {spec.quota.allocations} allocations,"
        f" {spec.quota.storage_gib} GiB of storage",
        "rate": "nothing until somebody allocates",
        "warning": "" if spec.entitlements.skus else "without a SKU nobody can allocate anything",
    }


NAME = name_question("project", PROJECT)


def own_name(text: str, scene: Scene, answers: Answers) -> str:
    if text in KIND_WORDS.values():
        raise NoAnswer(f"{text} is the name of a kind: {text}/NAME would be ambiguous")
    return NAME.read(text, scene, answers)


FORM = Form(
    kind="project",
    about="People who share what they may hold and use.",
    folder="projects/{name}",
    apart=True,
    questions=(
        SpecQuestion(
            name=NAME.name,
            step=PROJECT,
            asks=NAME.asks,
            help=NAME.help,
            required=True,
            read=own_name,
        ),
        SpecQuestion(
            name="tenant",
            step=PROJECT,
            asks="Tenant",
            help="Tenant that it belongs to; by default the only one of the Policy.",
            required=True,
            choices=tenants,
            default=only_tenant,
            read=among(tenants, "tenant"),
        ),
        SpecQuestion(
            name="display-name",
            step=PROJECT,
            asks="What people call it",
            help="What people call it; its name if not stated.",
            metavar="TEXT",
            read=one_line(),
        ),
        SpecQuestion(
            name="owner",
            step=PEOPLE,
            asks="Owner",
            help="User who owns it.",
            metavar="USER",
            required=True,
            choices=users,
            read=among(users, "user"),
        ),
        SpecQuestion(
            name="member",
            step=PEOPLE,
            asks="Other members, as NAME or NAME:maintainer",
            help="Another member, as USER or USER:ROLE; may be repeated.",
            metavar="USER[:ROLE]",
            many=True,
            key_ends=":",
            needs="owner",
            choices=others,
            read=member,
        ),
        SpecQuestion(
            name="gpus",
            step=LIMITS,
            asks="GPUs that it may hold at one time",
            help="GPUs that it may hold at one time.",
            metavar="NUMBER",
            required=True,
            read=number_of(0, MOST),
        ),
        SpecQuestion(
            name="sku",
            step=LIMITS,
            asks="SKUs that it may order",
            help="SKU that it may order; may be repeated.",
            many=True,
            choices=skus,
            read=among(skus, "SKU"),
        ),
        SpecQuestion(
            name="storage-class",
            step=LIMITS,
            asks="Storage classes that it may use, if any",
            help="Storage class that it may use; may be repeated.",
            many=True,
            choices=classes,
            read=among(classes, "storage class"),
        ),
        SpecQuestion(
            name="storage-gib",
            step=LIMITS,
            asks="GiB of storage that it may hold",
            help="GiB of storage that it may hold at one time; 0 if not stated.",
            metavar="GIB",
            needs="storage-class",
            read=number_of(0, MOST_GIB),
        ),
    ),
    draft=draft,
    facts=facts,
)
