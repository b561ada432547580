"""Fleets of any size with everything in them: teams, each with something of every kind."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from reconciler.kinds.approval import approval_digest
from reconciler.kinds.node.spec import read_node
from reconciler.model.canonical import text_digest
from tests import fleets

ROOT = Path(__file__).parents[1]
LOCK = "six==1.17.0 --hash=sha256:" + "ab" * 32 + "\n"
PEOPLE = 4
LONG_AGO = 1_700_000_000


def everything(teams: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each team is a family, a node, two SKUs, a storage class, a bundle, an artifact, a manifest,
    a project of four people, five allocations of which one finds no room, a grant each, and data.
    """
    yield "fleet/policy.yaml", fleets.policy()
    yield "people/olga.yaml", fleets.user("olga")
    for number in range(teams):
        yield from team(f"team-{number}", real=number % 2 == 1)


def team(name: str, *, real: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """All that one team consists of, each document with its file.

    A `real` one has a host to prepare and accounts on it, another one a folder.
    """
    hardware = fleets.Hardware(
        family=f"family-{name}",
        model=fleets.MODEL,
        memory_mib=fleets.MEMORY_MIB,
        gpus=4,
        cores=56,
        memory_gib=512,
    )
    people = [f"{name}-{number}" for number in range(PEOPLE)]
    skus = [f"gpus-{size}-of-{name}" for size in (1, 2)]
    yield f"fleet/{name}/family.yaml", fleets.family(hardware)
    yield f"fleet/{name}/node.yaml", _node(name, hardware, real)
    for size, sku in zip((1, 2), skus, strict=True):
        made = fleets.sku(size, [hardware.family])
        made["metadata"]["name"] = sku
        made["spec"]["isolation"] = ["account" if real else "directory"]
        yield f"fleet/{name}/{sku}.yaml", made
    yield f"fleet/{name}/class.yaml", _storage_class(name)
    yield f"fleet/{name}/bundle.yaml", _bundle(name)
    yield f"fleet/{name}/artifact.yaml", _artifact(name)
    yield f"fleet/{name}/manifest.yaml", _manifest(name)
    for person in people:
        yield f"people/{name}/{person}.yaml", fleets.user(person)
    project = fleets.project(name, people, skus, 64)
    project["spec"]["entitlements"]["storageClasses"] = [f"class-{name}"]
    project["spec"]["quota"]["storageGiB"] = 1000
    folder = f"projects/{name}"
    yield f"{folder}/project.yaml", project
    yield (
        f"{folder}/data.yaml",
        fleets.document("Storage", "data", {"class": f"class-{name}", "sizeGiB": 10}, name),
    )
    for number in range(5):
        yield f"{folder}/run-{number}.yaml", _allocation(name, people, skus[0], number)
    for number in range(PEOPLE):
        to = people[(number + 1) % PEOPLE]
        yield (
            f"{folder}/share-{number}.yaml",
            fleets.grant(f"share-{number}", f"run-{number}", to, name),
        )


def _node(team: str, hardware: fleets.Hardware, real: bool) -> dict[str, Any]:
    name = f"node-{team}"
    made = fleets.node(name, hardware)
    if not real:
        return made
    spec = made["spec"]
    key = " ".join(fleets.public_key(name).split()[:2])
    machine = hashlib.sha256(name.encode()).hexdigest()[:32]
    spec |= {"isolation": "account", "root": "/", "address": f"{name}.example"}
    spec["identity"] = {"machineId": machine, "hostKeys": [key]}
    (approval,) = spec["approvals"]
    approval["digest"] = approval_digest(read_node(spec), approval["covers"])
    return made


def _allocation(team: str, people: list[str], sku: str, number: int) -> dict[str, Any]:
    """The first has the project's data and an environment; of five, four have room."""
    made = fleets.allocation(f"run-{number}", people[number % PEOPLE], sku, team)
    if number == 0:
        made["spec"]["storage"] = [{"name": "data", "mountPath": "/data", "mode": "rw"}]
        made["spec"]["runtimes"] = [{"bundle": f"bundle-{team}", "version": "1.0"}]
    return made


def _storage_class(team: str) -> dict[str, Any]:
    spec = {
        "directory": {"path": f"/srv/{team}"},
        "accessModes": ["single_writer"],
        "prices": [{"from": "2026-01-01T00:00:00Z", "perGiBMonth": "0.03", "currency": "EUR"}],
    }
    return fleets.document("StorageClass", f"class-{team}", spec)


def _bundle(team: str) -> dict[str, Any]:
    install = {
        "method": "venv",
        "python": "3.11",
        "lock": "locks/all.txt",
        "lockDigest": text_digest(LOCK),
    }
    one = {"version": "1.0", "compatible": {"gpuVendor": "none"}, "install": install}
    spec = {"displayName": "Six", "supportLevel": "supported", "versions": [one]}
    return fleets.document("Bundle", f"bundle-{team}", spec)


def _artifact(team: str) -> dict[str, Any]:
    ref = f"registry.example/{team}@sha256:" + "0" * 64
    return fleets.document("Artifact", f"image-{team}", {"ref": ref, "type": "image"})


def _manifest(team: str) -> dict[str, Any]:
    made = example("app_manifest")
    made["metadata"]["name"] = f"manifest-{team}"
    return made


def example(kind: str) -> dict[str, Any]:
    """The document that the reference shows for a kind."""
    text = (ROOT / "docs" / "reference" / "examples" / f"{kind}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def write(folder: Path, teams: int) -> None:
    fleets.write(folder, everything(teams))
    locks = folder / "locks"
    locks.mkdir()
    (locks / "all.txt").write_text(LOCK, encoding="utf-8")
    # Files that were written just now are not believed to be as their times say.
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


def change(folder: Path, team: str) -> None:
    """Another display name for one of the team."""
    path = folder / "specs" / "people" / team / f"{team}-0.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Person", "Somebody"), encoding="utf-8")
