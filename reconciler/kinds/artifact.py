"""Artifact: a payload in a registry, by digest, and how far it is trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from reconciler.kinds.checks.findings import finding
from reconciler.kinds.plain import NO_HOST_EFFECTS
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "Artifact"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.ref": "refuse while used",
    "spec.type": "refuse while used",
    "spec.signature": "none",
    "spec.stage": "none",
    "spec.canary": "none",
    "spec.reason": "none",
}


class ArtifactType(StrEnum):
    IMAGE = "image"
    MODEL = "model"
    DATASET = "dataset"
    SCRIPT = "script"


class ArtifactStage(StrEnum):
    DRAFT = "draft"
    STAGED = "staged"
    CANARY = "canary"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSpec:
    """`ref` ends in the digest: a tag can move, this cannot."""

    ref: str
    type: ArtifactType
    signature: str | None = None
    stage: ArtifactStage = ArtifactStage.DRAFT
    canary: Canary | None = None
    reason: str | None = None


def parse(spec: Mapping[str, object], name: str) -> ArtifactSpec:
    return decode(ArtifactSpec, spec)


ARTIFACTS = TypedSpecs(kind="artifact", parse=parse)


def refs(resource: Resource[ArtifactSpec]) -> tuple[Reference, ...]:
    return ()


def check(resource: Resource[ArtifactSpec], desired: Desired) -> Iterator[Problem]:
    spec: ArtifactSpec = resource.spec
    if spec.stage is ArtifactStage.CANARY and spec.canary is None:
        message = "an artifact in stage canary says who gets it"
        yield finding(resource, ("spec",), "field_missing", message, "state spec.canary.percent")


def unsupported(resource: Resource[ArtifactSpec]) -> str:
    """Nothing starts one: it serves apps alone."""
    return NAME


needs, basis, steps, expected = NO_HOST_EFFECTS
