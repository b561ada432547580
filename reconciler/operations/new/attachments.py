"""Attachments: which storages a project may attach, and how one is told in a few words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reconciler.kinds.allocation.spec import ALLOCATIONS, MountMode
from reconciler.kinds.storage import STORAGES, AccessMode, StorageSpec
from reconciler.model.spec.resource import Resource
from reconciler.operations.new.answers import among
from reconciler.operations.new.contract import (
    PROJECT,
    AnswerChoice,
    Answers,
    NoAnswer,
    Scene,
)

ATTACHED = re.compile(r"([^:]*)(?::(ro|rw))?(?::(/[^:]*))?")


def storages(scene: Scene, answers: Answers) -> Sequence[AnswerChoice]:
    return tuple(
        AnswerChoice(word=one.ref.name, note=_of_storage(one, scene))
        for one in STORAGES.of(scene.desired)
        if one.ref.project == answers.one(PROJECT)
    )


def _of_storage(one: Resource[StorageSpec], scene: Scene) -> str:
    holders = [
        f"{other.ref.name} ({each.mode})"
        for other in ALLOCATIONS.of(scene.desired)
        if other.ref.project == one.ref.project
        for each in other.spec.storage
        if each.name == one.ref.name
    ]
    attached = f" · attached by {', '.join(holders)}" if holders else ""
    return f"{one.spec.size_gib} GiB · {one.spec.access_mode}{attached}"


def usual_mode(storage: Resource[StorageSpec] | None) -> MountMode:
    """Read only for what is there to be read by many."""
    many = storage is not None and storage.spec.access_mode is AccessMode.MULTI_READER
    return MountMode.READ_ONLY if many else MountMode.READ_WRITE


def attachment(text: str, scene: Scene, answers: Answers) -> str:
    """`NAME`, `NAME:MODE` or `NAME:MODE:/PATH`, with its mode in the end."""
    found = ATTACHED.fullmatch(text)
    if found is None:
        raise NoAnswer(f"{text!r} is no storage: write NAME, NAME:ro or NAME:rw:/data/PATH")
    name = among(storages, "storage")(found[1], scene, answers)
    mode = found[2] or usual_mode(STORAGES.get(scene.desired, name, answers.one(PROJECT)))
    return ":".join(filter(None, (name, mode, found[3])))


def attachment_entry(text: str) -> Mapping[str, object]:
    name, mode, path = (*text.split(":"), "")[:3]
    return {"name": name, **({"mountPath": path} if path else {}), "mode": mode}
