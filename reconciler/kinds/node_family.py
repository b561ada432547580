"""NodeFamily: nodes with the same GPU, and the base software they must run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from reconciler.kinds.plain import NO_HOST_EFFECTS, everything_is_supported
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "NodeFamily"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.gpu": "refuse while used",
    "spec.base": "live",
    "spec.description": "none",
}


MEMORY_TOLERANCE_PERCENT = 7
"""Drivers differ by one or two percent, and error correction takes a sixteenth of some cards."""


def near(measured: int | None, stated: int, tolerance_percent: int | None = None) -> bool:
    """Whether a card's memory may be what is stated; what was not measured contradicts nothing."""
    percent = MEMORY_TOLERANCE_PERCENT if tolerance_percent is None else tolerance_percent
    return measured is None or abs(measured - stated) * 100 <= stated * percent


class Vendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyGpu:
    """The GPU of a family.

    `memory_mib` is what one driver measured; `memory_tolerance_percent` is how far equal GPUs, and
    other drivers, may differ from it.
    """

    vendor: Vendor
    model: str
    memory_mib: int
    memory_tolerance_percent: int = MEMORY_TOLERANCE_PERCENT

    def fits(self, model: str, memory_mib: int | None) -> bool:
        """Whether a card of which this is told may be one of the family."""
        return model == self.model and near(
            memory_mib, self.memory_mib, self.memory_tolerance_percent
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSystem:
    """`driver_branches` is a set, so that drivers can be upgraded host by host."""

    os: tuple[str, ...]
    driver_branches: tuple[str, ...]
    cuda_max: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFamilySpec:
    gpu: FamilyGpu
    base: BaseSystem
    description: str | None = None


def parse(spec: Mapping[str, object], name: str) -> NodeFamilySpec:
    family = decode(NodeFamilySpec, spec)
    base = replace(
        family.base,
        os=tuple(sorted(family.base.os)),
        driver_branches=tuple(sorted(family.base.driver_branches)),
    )
    return replace(family, base=base)


NODE_FAMILIES = TypedSpecs(kind="node_family", parse=parse)


def refs(resource: Resource[NodeFamilySpec]) -> tuple[Reference, ...]:
    return ()


def check(resource: Resource[NodeFamilySpec], desired: Desired) -> tuple[Problem, ...]:
    return ()


unsupported = everything_is_supported
needs, basis, steps, expected = NO_HOST_EFFECTS
