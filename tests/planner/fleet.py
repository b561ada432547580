"""Small fleets in memory: documents, the Desired of them, and what their hosts would say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from reconciler.kinds.approval import approval_digest
from reconciler.kinds.node.spec import read_node
from reconciler.kinds.registry import KINDS
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.capacity import Claim, ClaimState, Isolation, Need, Shape
from reconciler.model.host.evidence import GpuFact, NodeFacts, Observation
from reconciler.model.moment import format_moment
from reconciler.model.ref import KIND_WORDS, PROJECT_KINDS, Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from tests.fleets import public_key

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
STATE_ID = "state-1"
MODEL, MEMORY_MIB = "NVIDIA H100 80GB HBM3", 81559
SETTINGS = Settings(folder="/fleet", operators=("olga",))

Spec = Mapping[str, Any]


def document(
    kind: str, name: str, spec: Spec, project: str = "", **metadata: Any
) -> dict[str, Any]:
    place = {"name": name, **({"project": project} if project else {}), **metadata}
    return {"apiVersion": "gpuaas/v1", "kind": kind, "metadata": place, "spec": dict(spec)}


def slot(node: str, number: int, numa: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "name": f"s{number}",
        "gpu": {
            "uuid": f"GPU-{node}-{number}",
            "pciAddress": f"0000:{0x10 + number:02x}:00.0",
            "model": MODEL,
            "memoryMiB": MEMORY_MIB,
        },
        "numa": numa,
        "cpus": f"{number * 8}-{number * 8 + 7}",
        "memoryGiB": 64,
        **changes,
    }


def node(
    name: str, slots: int | list[Spec] = 8, covers: Iterable[str] | None = None, **changes: Any
) -> dict[str, Any]:
    """A node of two NUMA halves, approved whole unless `covers` says otherwise."""
    if isinstance(slots, int):
        slots = [slot(name, number, number * 2 // slots) for number in range(slots)]
    spec = {
        "address": "local",
        "family": "h100",
        "isolation": "directory",
        "shapes": ["baremetal", "gpu_slice"],
        "root": f"nodes/{name}",
        "slots": slots,
        **changes,
    }
    names = ["host", *(each["name"] for each in slots)] if covers is None else list(covers)
    if names:
        approved = approval_digest(read_node(spec), names)
        at = "2026-01-01T00:00:00Z"
        spec["approvals"] = [{"by": "olga", "at": at, "covers": names, "digest": approved}]
    return document("Node", name, spec)


def family(name: str = "h100", **changes: Any) -> dict[str, Any]:
    gpu = {"vendor": "nvidia", "model": MODEL, "memoryMiB": MEMORY_MIB}
    base = {"os": ["debian-12"], "driverBranches": ["570"]}
    return document("NodeFamily", name, {"gpu": gpu, "base": base, **changes})


def sku(name: str, slots: int = 1, **changes: Any) -> dict[str, Any]:
    shape = {"shape": "gpu_slice", "slots": slots} if slots else {"shape": "baremetal"}
    prices = [{"from": "2026-01-01T00:00:00Z", "perGpuHour": "2.10", "currency": "EUR"}]
    return document(
        "Sku",
        name,
        {
            "displayName": name,
            **shape,
            "families": ["h100"],
            "isolation": ["directory"],
            "prices": prices,
            **changes,
        },
    )


LASTING = "2100-01-01T00:00:00Z"
"""The end of allocations in two runs that are compared: a lease that nobody has stated is counted

in whole hours, which may turn between the two.
"""


def user(name: str, *keys: str, **changes: Any) -> dict[str, Any]:
    listed = [{"id": key, "publicKey": public_key(f"{name}-{key}")} for key in keys or ("laptop",)]
    return document("User", name, {"emails": [f"{name}@corp.example"], "keys": listed, **changes})


def project(
    name: str, *members: str, tenant: str = "corp", gpus: int = 64, **changes: Any
) -> dict[str, Any]:
    listed = [{"user": m, "role": "owner" if m == members[0] else "member"} for m in members]
    skus = ["slice-1", "slice-2", "slice-4", "slice-8", "whole"]
    return document(
        "Project",
        name,
        {
            "tenant": tenant,
            "members": listed,
            "quota": {"gpus": gpus},
            "entitlements": {"skus": skus},
            **changes,
        },
    )


def allocation(
    name: str, sku: str = "slice-1", project: str = "vision", **changes: Any
) -> dict[str, Any]:
    metadata = {k: changes.pop(k) for k in ("formerName", "labels") if k in changes}
    spec = {"sku": sku, "owner": "ana", **changes}
    return document("Allocation", name, spec, project, **metadata)


def grant(name: str, of: str, to: str, project: str = "vision", **changes: Any) -> dict[str, Any]:
    spec = {"allocation": of, "user": to, "expiresAt": "2026-12-20T00:00:00Z", "reason": "helps"}
    return document("Grant", name, {**spec, **changes}, project)


def storage_class(
    name: str, modes: Iterable[str] = ("single_writer",), **backend: Any
) -> dict[str, Any]:
    """`backend` is one of directory, loop and nfs, and whatever else the class says."""
    return document("StorageClass", name, {"accessModes": list(modes), **backend})


def storage(
    name: str, class_: str = "local", project: str = "vision", **changes: Any
) -> dict[str, Any]:
    metadata = {k: changes.pop(k) for k in ("formerName", "labels") if k in changes}
    spec = {"class": class_, "sizeGiB": 1, **changes}
    return document("Storage", name, spec, project, **metadata)


def policy(**changes: Any) -> dict[str, Any]:
    """Releases are of one step and leases outlive everybody, unless `changes` say otherwise."""
    spec = {
        "tenants": ["corp", "acme"],
        "release": {"undoMinutes": 0},
        "lease": {"defaultHours": 876000, "maxHours": 876000},
        **changes,
    }
    return document("Policy", "fleet", spec)


def base_fleet(nodes: int = 2, slots: int = 8) -> list[dict[str, Any]]:
    """Everything but allocations: two tenants, two projects, three people, SKUs of all sizes."""
    return [
        policy(),
        family(),
        *(node(f"gpu{number:02}", slots) for number in range(1, nodes + 1)),
        *(sku(f"slice-{size}", size) for size in (1, 2, 4, 8)),
        sku("whole", 0),
        user("olga"),
        user("ana", "laptop", "desk"),
        user("bo", "desk"),
        project("vision", "ana", "bo"),
        project("nlp", "bo", "ana", tenant="acme"),
    ]


def resource(value: Mapping[str, Any], file: str = "") -> Resource:
    """The typed resource of a document, as the room of specs makes it."""
    metadata = value["metadata"]
    word = KIND_WORDS[value["kind"]]
    ref = Ref(word, metadata.get("project", "") if word in PROJECT_KINDS else "", metadata["name"])
    spec = KINDS[word].parse(value["spec"], ref.name)
    normal = {"labels": dict(metadata.get("labels", {})), "spec": encode(spec)}
    return Resource(
        ref=ref,
        spec=spec,
        normal=normal,
        digest=digest(normal),
        file=file or f"specs/{str(ref).replace('/', '-')}.yaml",
        former_name=metadata.get("formerName", ""),
    )


def desired(documents: Iterable[Mapping[str, Any]], **changes: Any) -> Desired:
    resources = {one.ref: one for one in map(resource, documents)}
    total = digest({str(ref): one.digest for ref, one in resources.items()})
    return Desired(**{"settings": SETTINGS, "resources": resources, "digest": total, **changes})


def observation(node_spec: Resource, **changes: Any) -> Observation:
    """What a sound host of this spec says now."""
    facts = {
        "source": "standin",
        "boot_id": "boot-1",
        "os": "debian-12",
        "memory_mib": 1024
        * (
            sum(each.memory_gib for each in node_spec.spec.slots)
            + node_spec.spec.reserve.memory_gib
        ),
        "gpus": tuple(
            GpuFact(
                uuid=each.gpu.uuid,
                pci_address=each.gpu.pci_address,
                model=each.gpu.model,
                driver="570.133-standin",
                numa=each.numa,
                processes=(),
            )
            for each in node_spec.spec.slots
        ),
        "card_errors": {},
        "fabric": (),
        "nvmes": tuple(each.nvme.id for each in node_spec.spec.slots if each.nvme),
        "nics": {each.nic.pci_address: "mlx5" for each in node_spec.spec.slots if each.nic},
        "paths": {},
        "descriptors": {},
        "sessions": {},
        "sizes": {},
    }
    return Observation(
        node=node_spec.ref.name,
        at=format_moment(changes.pop("at", NOW)),
        facts=NodeFacts(**{**facts, **changes}),
    )


def world(of: Desired, **changes: Any) -> World:
    """An empty state whose every node was observed just now."""
    seen = {one.ref.name: observation(one) for one in of.of("node")}
    return World(
        **{"state_id": STATE_ID, "serial": 1, "recorded": {}, "observations": seen, **changes}
    )


def claim(name: str, node: str, slot: str | None, **changes: Any) -> Claim:
    values = {
        "id": f"{name}-{node}-{slot}",
        "allocation_id": f"{name}-id",
        "ref": Ref("allocation", "vision", name),
        "node": node,
        "slot": slot,
        "shape": Shape.GPU_SLICE if slot else Shape.BAREMETAL,
        "state": ClaimState.HELD,
        "since": "2026-11-01T00:00:00Z",
        "tenant": "corp",
        "project": "vision",
    }
    return Claim(**{**values, **changes})


def need(name: str, slots: int = 1, **changes: Any) -> Need:
    values = {
        "ref": Ref("allocation", "vision", name),
        "sku": f"slice-{slots}",
        "shape": Shape.GPU_SLICE if slots else Shape.BAREMETAL,
        "slots": slots,
        "families": ("h100",),
        "isolation": (Isolation.DIRECTORY,),
        "min_cpus_per_slot": 0,
        "min_memory_gib_per_slot": 0,
        "rdma": False,
        "tenant": "corp",
        "project": "vision",
    }
    return Need(**{**values, **changes})
