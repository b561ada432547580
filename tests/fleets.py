"""Fleets on paper: the documents of as many specs as wanted, made the same way every time."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reconciler.kinds.approval import name_digests
from reconciler.kinds.node import node as node_kind
from reconciler.model.codec import encode

Spec = Mapping[str, Any]

SETTINGS = "operators: [olga]\n"
APPROVED_AT = "2026-01-01T00:00:00Z"
MODEL, MEMORY_MIB = "NVIDIA H100 80GB HBM3", 81559


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One node's inside; its slots share the cores and the memory evenly."""

    family: str
    model: str
    memory_mib: int
    gpus: int
    cores: int
    memory_gib: int


H100_NODE = Hardware(
    family="h100", model=MODEL, memory_mib=MEMORY_MIB, gpus=8, cores=112, memory_gib=1024
)


def document(kind: str, name: str, spec: Spec, project: str = "") -> dict[str, Any]:
    metadata = {"name": name, "project": project} if project else {"name": name}
    return {"apiVersion": "gpuaas/v1", "kind": kind, "metadata": metadata, "spec": spec}


def public_key(name: str) -> str:
    """A well formed ed25519 key that nobody holds."""
    kind = b"ssh-ed25519"
    raw = hashlib.sha256(name.encode()).digest()
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, raw))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {name}"


def user(name: str) -> dict[str, Any]:
    """A person with three keys: 25 lines of YAML."""
    made = document(
        "User",
        name,
        {
            "displayName": f"Person {name}",
            "emails": [f"{name}@corp.example", f"{name}@lab.example"],
            "state": "active",
            "keys": [
                {"id": "laptop", "publicKey": public_key(f"{name}-laptop")},
                {"id": "desk", "publicKey": public_key(f"{name}-desk")},
                {
                    "id": "travel",
                    "publicKey": public_key(f"{name}-travel"),
                    "expiresAt": "2030-01-01T00:00:00Z",
                },
            ],
        },
    )
    made["metadata"]["labels"] = {"team": "vision", "site": "north", "floor": "three"}
    return made


def project(name: str, members: Iterable[str], skus: Iterable[str], gpus: int) -> dict[str, Any]:
    owner, *others = members
    return document(
        "Project",
        name,
        {
            "displayName": f"Project {name}",
            "tenant": "corp",
            "members": [{"user": owner, "role": "owner"}]
            + [{"user": other, "role": "member"} for other in others],
            "quota": {"gpus": gpus, "allocations": 10000},
            "entitlements": {"skus": list(skus)},
        },
    )


def allocation(name: str, owner: str, sku: str, in_project: str) -> dict[str, Any]:
    return document("Allocation", name, {"sku": sku, "owner": owner}, in_project)


def grant(name: str, of: str, to: str, in_project: str) -> dict[str, Any]:
    return document(
        "Grant",
        name,
        {
            "allocation": of,
            "user": to,
            "keys": ["desk"],
            "expiresAt": "2027-12-31T00:00:00Z",
            "reason": "works on it too",
        },
        in_project,
    )


def sku(slots: int, families: Iterable[str]) -> dict[str, Any]:
    return document(
        "Sku",
        f"gpus-{slots}",
        {
            "displayName": f"{slots} whole GPUs",
            "shape": "gpu_slice",
            "slots": slots,
            "families": sorted(families),
            "isolation": ["directory"],
            "prices": [{"from": "2026-01-01T00:00:00Z", "perGpuHour": "2.10", "currency": "EUR"}],
        },
    )


def family(hardware: Hardware) -> dict[str, Any]:
    gpu = {"vendor": "nvidia", "model": hardware.model, "memoryMiB": hardware.memory_mib}
    base = {"os": ["debian-12"], "driverBranches": ["570"]}
    return document("NodeFamily", hardware.family, {"gpu": gpu, "base": base})


def node(name: str, hardware: Hardware) -> dict[str, Any]:
    """A node whose host and slots are approved by olga."""
    spec = {
        "address": "local",
        "family": hardware.family,
        "isolation": "directory",
        "sharing": "any",
        "root": f"state/nodes/{name}",
        "reserve": {"cpus": "", "memoryGiB": 8},
        "slots": [slot(name, number, hardware) for number in range(hardware.gpus)],
    }
    covers = ["host", *(each["name"] for each in spec["slots"])]
    digests = encode(name_digests(node_kind.parse(spec, name), covers))
    approval = {"by": "olga", "at": APPROVED_AT, "covers": covers, "digests": digests}
    return document("Node", name, {**spec, "approvals": [approval]})


def slot(node_name: str, number: int, hardware: Hardware) -> dict[str, Any]:
    seed = hashlib.sha256(f"{node_name}/{number}".encode()).hexdigest()
    uuid = f"GPU-{seed[:8]}-{seed[8:12]}-{seed[12:16]}-{seed[16:20]}-{seed[20:32]}"
    cores = hardware.cores // hardware.gpus
    return {
        "name": f"s{number}",
        "gpu": {
            "uuid": uuid,
            "pciAddress": f"0000:{0x10 + number:02x}:00.0",
            "model": hardware.model,
            "memoryMiB": hardware.memory_mib,
        },
        "numa": number * 2 // hardware.gpus if hardware.gpus > 2 else 0,
        "cpus": f"{number * cores}-{(number + 1) * cores - 1}",
        "memoryGiB": (hardware.memory_gib - 8) // hardware.gpus,
    }


def policy() -> dict[str, Any]:
    """Releases are of one step."""
    spec = {
        "tenants": ["corp"],
        "evidence": {"maxAgeMinutes": 60},
        "grant": {"maxDays": 3650},
        "release": {"undoMinutes": 0},
    }
    return document("Policy", "fleet", spec)


def mixed(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """`count` documents of a fleet at work, each with its file: in a hundred, 5 nodes of eight
    GPUs, 5 projects, 30 people, 30 allocations of one or two GPUs and 30 grants.
    """
    yield "fleet/policy.yaml", policy()
    yield "fleet/family.yaml", family(H100_NODE)
    yield "fleet/sku-1.yaml", sku(1, ["h100"])
    yield "fleet/sku-2.yaml", sku(2, ["h100"])
    yield "fleet/olga.yaml", user("olga")
    made = 5
    for team in range(count):
        for path, text in _team(team):
            if made == count:
                return
            made += 1
            yield path, text


def _team(team: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """One node and one project: six people, six allocations, and a grant on each to a colleague."""
    name = f"team-{team}"
    people = [f"p{team}-{number}" for number in range(6)]
    yield f"nodes/{name}.yaml", node(f"node-{team}", H100_NODE)
    for person in people:
        yield f"people/{name}/{person}.yaml", user(person)
    yield f"projects/{name}/project.yaml", project(name, people, ["gpus-1", "gpus-2"], 8)
    for number, person in enumerate(people):
        size = 2 if number < 2 else 1
        yield (
            f"projects/{name}/run-{number}.yaml",
            allocation(f"run-{number}", person, f"gpus-{size}", name),
        )
        colleague = people[(number + 1) % 6]
        yield (
            f"projects/{name}/share-{number}.yaml",
            grant(f"share-{number}", f"run-{number}", colleague, name),
        )


def write(folder: Path, documents: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
    """Write a fleet's repository below `folder`: gpuaas.yaml and a file a document."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpuaas.yaml").write_text(SETTINGS, encoding="utf-8")
    made: set[Path] = set()
    count = 0
    for name, value in documents:
        path = folder / "specs" / name
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        path.write_text(to_yaml(value), encoding="utf-8")
        count += 1
    return count


def to_yaml(value: Mapping[str, Any]) -> str:
    return str(yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, width=100))
