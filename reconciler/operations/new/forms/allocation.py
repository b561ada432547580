"""The form of an Allocation: compute first, then access, then storage and runtime as extras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from reconciler.kinds.allocation.spec import AllocationSpec
from reconciler.kinds.lease import after, terms_of
from reconciler.kinds.sku import SKUS, SkuSpec, SkuState
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.spec.resource import Resource
from reconciler.operations.inventory.stock import sku_rows
from reconciler.operations.new.answers import among, end_in_time
from reconciler.operations.new.attachments import attachment, attachment_entry, storages
from reconciler.operations.new.choices import (
    YES_NO,
    me_if_member,
    members,
    money,
    name_question,
    project_of,
    project_question,
)
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
from reconciler.operations.new.quota import gpus_of, of_allocations
from reconciler.operations.new.runtimes import runtime, runtime_entry, runtimes, unfit, versions
from reconciler.operations.new.text import compose
from reconciler.operations.views import SkuRow
from reconciler.planner.changes.text import price
from reconciler.planner.storage.text import lasting

COMPUTE, ACCESS, STORAGE, RUNTIME = "compute", "access", "storage", "runtime"

HEADING = (
    "An allocation: what is wanted, and not where. Removing this file releases it, with its"
    " home and scratch. Each key with its meaning: gpuaas schema allocation"
)


# -- compute


def skus(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """What the project may order, with what is free of it now."""
    project = project_of(scene, answers)
    rows = {row.sku: row for row in sku_rows(scene.stock)} if scene.stock else {}
    return tuple(
        AnswerChoice(word=sku.ref.name, note=" · ".join(_of_sku(sku, rows, scene)))
        for name in (project.spec.entitlements.skus if project else ())
        if (sku := SKUS.get(scene.desired, name)) and sku.spec.state is SkuState.ACTIVE
    )


def _of_sku(sku: Resource[SkuSpec], rows: Mapping[str, SkuRow], scene: Scene) -> Iterator[str]:
    row = rows.get(sku.ref.name)
    yield _free(row)
    for currency, amount in price(sku, sku.spec.slots or 1, scene.now).items():
        yield f"{money(amount, currency)}/h" + ("" if sku.spec.slots else " a GPU")
    yield sku.spec.display_name


def _free(row: SkuRow | None) -> str:
    """Nobody knows before the first apply what is free."""
    return f"{row.free} free now" if row else "free: unknown"


# -- access


def guests(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    """Members beside the owner."""
    return tuple(one for one in members(scene, answers) if one.word != answers.one("owner"))


def lease_end(text: str, scene: Scene, answers: Answers) -> str:
    """An end within what the project allows."""
    end, project = end_in_time(text, scene, answers), project_of(scene, answers)
    if end == "none":
        if project and not project.spec.lease.may_be_open_ended:
            raise NoAnswer(f"project {project.ref.name} allows no allocation without an end")
        return end
    latest = after(scene.now, terms_of(answers.one(PROJECT), scene.desired).longest)
    moment = parse_moment(end)
    if moment and moment > latest:
        raise NoAnswer(f"project {answers.one(PROJECT)} allows {format_moment(latest)} at most")
    return end


# -- the document


def draft(scene: Scene, answers: Answers) -> SpecDraft:
    return compose(FORM.ref(answers), HEADING, tuple(_parts(answers)))


def _parts(answers: Answers) -> Iterator[Part]:
    owner, access = answers.one("owner"), answers.all("access")
    yield Part(
        comment="Compute: an outcome, never a host. Another SKU is another place: a replacement.",
        entries={"sku": answers.one("sku")},
    )
    people: dict[str, object] = {"owner": owner}
    if set(access) - {owner}:
        people["access"] = [owner, *(one for one in access if one != owner)]
    yield Part(
        comment="Access: the owner, and members under `access`, for its whole life, each with their"
        " own keys. Anybody else for a while, by a Grant: gpuaas grant add",
        entries=people,
    )
    if end := answers.one("expires"):
        yield Part(comment="When it ends. Later: gpuaas extend", entries={"expiresAt": end})
    else:
        yield Part(
            comment="It ends when the default lease of the project is over. To say when:\n"
            ' expiresAt: "2027-01-31T00:00:00Z"'
        )
    if attached := answers.all("storage"):
        yield Part(
            comment="Storage: durable data of the project, which outlives this allocation.",
            entries={STORAGE: [attachment_entry(one) for one in attached]},
        )
    else:
        yield Part(comment="Nothing outlives it without storage: gpuaas storage attach")
    if named := answers.all("runtime"):
        yield Part(
            comment="Runtimes: an overlay that may change at any time; the first is the default.",
            entries={"runtimes": [runtime_entry(one) for one in named]},
        )
    if answers.one("protect") == "yes":
        yield Part(
            comment="Released only after this was taken away and applied.",
            entries={"protect": True},
        )


def facts(scene: Scene, answers: Answers, resource: Resource[AllocationSpec]) -> Mapping[str, str]:
    """The rate, the end, and what outlives the release."""
    sku = SKUS.get(scene.desired, resource.spec.sku)
    rows = {row.sku: row for row in sku_rows(scene.stock)} if scene.stock else {}
    gpus = gpus_of(scene, resource.spec.sku)
    free, each = _free(rows.get(resource.spec.sku)), "" if gpus else " a GPU"
    rate = price(sku, gpus or 1, scene.now)
    asked, too_much = of_allocations(scene, resource.ref.project, gpus)
    return {
        "compute": f"{gpus or '?'} GPU{'' if gpus == 1 else 's'} · {free}",
        "quota": asked,
        "rate": ", ".join(f"{money(amount, one)}/h{each}" for one, amount in rate.items())
        or "no price",
        "ends": _end(scene, resource),
        "lasts": lasting(resource),
        "warning": "; ".join(filter(None, (too_much, *_doubts(scene, answers)))),
    }


def _end(scene: Scene, resource: Resource[AllocationSpec]) -> str:
    if stated := resource.spec.expires_at:
        return "never" if stated == "none" else stated
    hours = terms_of(resource.ref.project, scene.desired).default
    length = timedelta(hours=hours)
    told = f"{length.days} days" if length.days > 1 and not length.seconds else f"{hours} h"
    return f"{told} after it begins, by the default lease"


def _doubts(scene: Scene, answers: Answers) -> Iterator[str]:
    chosen = answers.all("runtime")
    for need, _ in versions(scene):
        word = f"{need.bundle}@{need.version}"
        if word in chosen and (why := unfit(need, scene, answers)):
            yield f"{word} runs on no node of this SKU ({why})"


FORM = Form(
    kind="allocation",
    about="GPUs for somebody: compute, access, and as extras storage and a runtime.",
    questions=(
        project_question(COMPUTE),
        SpecQuestion(
            name="sku",
            step=COMPUTE,
            asks="Compute",
            help="SKU to order, of those that the project is entitled to.",
            required=True,
            needs=PROJECT,
            choices=skus,
            read=among(skus, "SKU"),
        ),
        name_question("allocation", COMPUTE),
        SpecQuestion(
            name="owner",
            step=ACCESS,
            asks="Owner",
            help="Member who owns it and may log in; by default you.",
            metavar="USER",
            required=True,
            needs=PROJECT,
            choices=members,
            default=me_if_member,
            read=among(members, "member"),
        ),
        SpecQuestion(
            name="access",
            step=ACCESS,
            asks="Who else may log in, for its whole life",
            help="Another member who may log in for its whole life; may be repeated.",
            metavar="USER",
            many=True,
            needs=PROJECT,
            choices=guests,
            read=among(members, "member"),
        ),
        SpecQuestion(
            name="expires",
            step=ACCESS,
            asks="When it ends (a time, or as in 14d)",
            help="When it ends: a time, a length from now such as 14d, or none; the default lease"
            " of the project if not stated.",
            metavar="TIME",
            needs=PROJECT,
            read=lease_end,
        ),
        SpecQuestion(
            name="storage",
            step=STORAGE,
            asks="Durable data to attach, if any",
            help="Storage to attach, as NAME, NAME:ro or NAME:rw:/data/PATH; may be repeated.",
            metavar="NAME[:MODE[:PATH]]",
            many=True,
            key_ends=":",
            needs=PROJECT,
            choices=storages,
            read=attachment,
        ),
        SpecQuestion(
            name="runtime",
            step=RUNTIME,
            asks="Ready environments, if any; the first is the default",
            help="Bundle to make ready, the newest version that fits unless one is named; may be"
            " repeated.",
            metavar="BUNDLE[@VERSION]",
            many=True,
            choices=runtimes,
            read=runtime,
        ),
        SpecQuestion(
            name="protect",
            step=ACCESS,
            asks="Protect it from being released",
            help="Release it only after the protection was taken away: yes or no.",
            metavar="yes|no",
            asked=False,
            choices=YES_NO,
            read=among(YES_NO, "answer"),
        ),
    ),
    draft=draft,
    facts=facts,
)
