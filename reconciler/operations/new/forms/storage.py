"""The form of a Storage: durable data of a project, independent of any allocation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from reconciler.kinds.storage import StorageSpec
from reconciler.kinds.storage_class import STORAGE_CLASSES, StorageClassSpec, price_in_force
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import among, number_of
from reconciler.operations.new.choices import (
    money,
    name_question,
    one_of,
    project_of,
    project_question,
)
from reconciler.operations.new.contract import (
    PROJECT,
    AnswerChoice,
    Answers,
    Form,
    Part,
    Scene,
    SpecDraft,
    SpecQuestion,
)
from reconciler.operations.new.quota import of_storage
from reconciler.operations.new.text import compose

STORAGE = "storage"
MOST_GIB = 1_000_000_000
HEADING = (
    "Durable data of a project: it outlives every allocation that attaches it. Each key with"
    " its meaning: gpuaas schema storage"
)
USUAL_MODE, USUAL_END = "single_writer", "keep"


def classes(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """Those that the project is entitled to; the one that the fleet proposes stands first."""
    project = project_of(scene, answers)
    entitled = project.spec.entitlements.storage_classes if project else ()
    found = [one for name in entitled if (one := STORAGE_CLASSES.get(scene.desired, name))]
    found.sort(key=lambda one: not one.spec.default)
    return tuple(AnswerChoice(word=one.ref.name, note=_of_class(one, scene)) for one in found)


def _of_class(one: Resource[StorageClassSpec], scene: Scene) -> str:
    (backend,) = one.spec.backend
    price = price_in_force(one.spec, scene.now)
    told = f" · {price.per_gib_month} {price.currency} a GiB and month" if price else ""
    return f"{backend} · {', '.join(one.spec.access_modes)}{told}"


def usual_class(scene: Scene, answers: Answers) -> str:
    """The only one, or the one that the fleet proposes."""
    offered = [one.word for one in classes(scene, answers)]
    found = (STORAGE_CLASSES.get(scene.desired, name) for name in offered)
    proposed = [one.ref.name for one in found if one and one.spec.default]
    return proposed[0] if len(proposed) == 1 else offered[0] if len(offered) == 1 else ""


def modes(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """What the class can do."""
    found = STORAGE_CLASSES.get(scene.desired, answers.one("class"))
    return tuple(AnswerChoice(word=mode) for mode in (found.spec.access_modes if found else ()))


def usual_mode(scene: Scene, answers: Answers) -> str:
    words = [one.word for one in modes(scene, answers)]
    return USUAL_MODE if USUAL_MODE in words else next(iter(words), "")


def draft(scene: Scene, answers: Answers) -> SpecDraft:
    return compose(FORM.ref(answers), HEADING, tuple(_parts(answers)))


def _parts(answers: Answers) -> Iterator[Part]:
    yield Part(
        comment="Where it lies and how large it is; it may grow, and never shrink.",
        entries={"class": answers.one("class"), "sizeGiB": int(answers.one("size"))},
    )
    mode, end = answers.one("mode") or USUAL_MODE, answers.one("on-delete") or USUAL_END
    yield Part(comment="Who may use it at one time.", entries={"accessMode": mode})
    yield Part(
        comment="What becomes of the data when this document is removed: keep, or wipe. It stays"
        " protected from that until protect: false is applied.",
        entries={"onDelete": end},
    )


def facts(scene: Scene, answers: Answers, resource: Resource[StorageSpec]) -> Mapping[str, str]:
    found = STORAGE_CLASSES.get(scene.desired, resource.spec.class_)
    price = price_in_force(found.spec, scene.now) if found else None
    rate = "no price"
    if price:
        amount = Decimal(price.per_gib_month) * resource.spec.size_gib
        rate = f"{money(amount, price.currency)} a month"
    asked, too_much = of_storage(scene, resource.ref.project, resource.spec.size_gib)
    then = "kept" if resource.spec.on_delete == USUAL_END else "wiped"
    return {
        "rate": rate,
        "quota": asked,
        "lasts": f"it outlives every allocation; {then} when this document is removed",
        "warning": too_much,
    }


FORM = Form(
    kind="storage",
    about="Durable data of a project.",
    questions=(
        project_question(STORAGE),
        SpecQuestion(
            name="class",
            step=STORAGE,
            asks="Class",
            help="StorageClass, of those that the project is entitled to; by default the only one,"
            " or the one that the fleet proposes.",
            required=True,
            needs=PROJECT,
            choices=classes,
            default=usual_class,
            read=among(classes, "storage class"),
        ),
        SpecQuestion(
            name="size",
            step=STORAGE,
            asks="Size in GiB",
            help="Size in GiB; it may grow later.",
            metavar="GIB",
            required=True,
            read=number_of(1, MOST_GIB),
        ),
        name_question("storage", STORAGE),
        SpecQuestion(
            name="mode",
            step="sharing",
            asks="Who may use it at one time",
            help="Who may use it at one time; single_writer if not stated and the class can.",
            metavar="MODE",
            needs="class",
            choices=modes,
            default=usual_mode,
            read=among(modes, "access mode"),
        ),
        SpecQuestion(
            name="on-delete",
            step="sharing",
            asks="Its data, when the document is removed",
            help="What becomes of the data when the document is removed: keep or wipe.",
            metavar="keep|wipe",
            choices=one_of("keep", "wipe"),
            default=lambda scene, answers: USUAL_END,
            read=among(one_of("keep", "wipe"), "answer"),
        ),
    ),
    draft=draft,
    facts=facts,
)
