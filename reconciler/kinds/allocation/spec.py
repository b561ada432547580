"""The typed spec of an Allocation: what a project asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from reconciler.kinds.checks.findings import same_moment
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.records import dataclass


class MountMode(StrEnum):
    READ_ONLY = "ro"
    READ_WRITE = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentSpec:
    name: str
    mount_path: str
    mode: MountMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    bundle: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    generation: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSpec:
    """None = not stated. `access` is sorted; `runtimes` keeps its order, the first is default."""

    sku: str
    owner: str
    access: tuple[str, ...]
    storage: tuple[AttachmentSpec, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    restart: Restart = field(default_factory=Restart)
    expires_at: str | None = None
    wait_until: str | None = None
    protect: bool = False
    node: str | None = None


def parse(spec: Mapping[str, Any], name: str) -> AllocationSpec:
    """The owner alone has access, and storage lies at `/data/<name>`, unless stated otherwise."""
    storage = [
        {"mountPath": f"/data/{attachment['name']}", **attachment}
        for attachment in sorted(spec.get("storage", ()), key=lambda entry: str(entry["name"]))
    ]
    access = sorted(spec.get("access", [spec["owner"]]))
    times = {key: same_moment(spec[key]) for key in ("expiresAt", "waitUntil") if key in spec}
    return decode(AllocationSpec, {**spec, **times, "access": access, "storage": storage})


ALLOCATIONS = TypedSpecs(kind="allocation", parse=parse)
