"""Overlaps: what belongs to one node or slot and must not belong to another.

A machine, its host keys, a GPU and a root folder are looked for in the whole fleet; disks, PCI
addresses and CPUs have the same names on every host, and count within theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from reconciler.kinds.checks.findings import Path, finding, twice
from reconciler.kinds.checks.once import once
from reconciler.kinds.node.spec import NodeSpec, Slot
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.cpus import format_cpus, parse_cpus
from reconciler.model.problem import Problem
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource


def check_overlaps(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    yield from _check_machine(resource, desired)
    yield from _check_host_keys(resource, desired)
    yield from _check_folder(resource, desired)
    yield from _check_gpus(resource, desired)
    yield from _check_devices(resource)
    yield from _check_cpus(resource)


def at_slot(slot: Slot, *path: str) -> Path:
    return ("spec", "slots", slot.name, *path)


def _check_machine(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    identity = resource.spec.identity
    if identity and len(nodes := _holders(desired)["machine", identity.machine_id]) > 1:
        others = ", ".join(sorted(nodes - {resource.ref.name}))
        message = f"machine {identity.machine_id} is node {others} as well"
        hint = "copied from another node's file? read it from /etc/machine-id of this host"
        path = ("spec", "identity", "machineId")
        yield finding(resource, path, "machine_id_taken", message, hint)


def _check_host_keys(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    """Whoever has the private half can pass for both hosts. Folders of one machine share it."""
    for key in _keys_of_whole_host(resource.spec):
        if others := _holders(desired)["key", key] - {resource.ref.name}:
            message = f"a host key is that of node {', '.join(sorted(others))} as well"
            hint = "hosts cloned from one image? give each its own: ssh-keygen -A"
            path = ("spec", "identity", "hostKeys")
            yield finding(resource, path, "host_key_taken", message, hint)
            return


def _keys_of_whole_host(spec: NodeSpec) -> tuple[str, ...]:
    whole = spec.isolation is not Isolation.DIRECTORY
    return spec.identity.host_keys if spec.identity and whole else ()


def _check_folder(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    """What one node finds below its root must not be another's: it would pass for leftovers."""
    above = accumulate(_root(resource.spec, desired), lambda folder, part: f"{folder}/{part}")
    others = {name for folder in above for name in _holders(desired).get(("root", folder), ())}
    if others := others - {resource.ref.name}:
        message = f"it lies in the root of node {', '.join(sorted(others))}"
        hint = "give each node a folder of its own"
        yield finding(resource, ("spec", "root"), "path_unsafe", message, hint)


def _check_gpus(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    for slot in spec.slots:
        holders = _holders(desired)["gpu", slot.gpu.uuid]
        others = ", ".join(sorted(holders - {resource.ref.name}))
        if others:
            message = f"GPU {slot.gpu.uuid} of slot {slot.name} is on node {others} as well"
            yield _overlap(resource, at_slot(slot, "gpu", "uuid"), message)


def _check_devices(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    for device, path, first in twice(_devices(resource.spec)):
        yield _overlap(resource, path, f"{device} is in slot {first[2]} and in slot {path[2]}")


def _devices(spec: NodeSpec) -> Iterator[tuple[str, Path]]:
    for slot in spec.slots:
        yield f"GPU {slot.gpu.uuid}", at_slot(slot, "gpu", "uuid")
        yield f"PCI device {slot.gpu.pci_address}", at_slot(slot, "gpu", "pciAddress")
        if slot.nic:
            yield f"PCI device {slot.nic.pci_address}", at_slot(slot, "nic", "pciAddress")
        if slot.nvme:
            yield f"disk {slot.nvme.id}", at_slot(slot, "nvme", "id")


def _check_cpus(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    reserve: Path = ("spec", "reserve", "cpus")
    sets = [("the reserve", reserve, spec.reserve.cpus)]
    sets += [(f"slot {s.name}", at_slot(s, "cpus"), s.cpus) for s in spec.slots]
    owner: dict[int, str] = {}
    for whose, path, text in sets:
        try:
            cpus = parse_cpus(text)
        except ValueError as why:
            yield finding(resource, path, "value_pattern", f"no CPU set: {why}", 'as in "0-13,112"')
            continue
        for other in sorted({owner[cpu] for cpu in cpus if cpu in owner}):
            shared = format_cpus(cpu for cpu in cpus if owner.get(cpu) == other)
            yield _overlap(resource, path, f"CPUs {shared} of {whose} belong to {other}")
        owner.update((cpu, whose) for cpu in cpus if cpu not in owner)


def _overlap(resource: Resource[NodeSpec], path: Path, message: str) -> Problem:
    hint = "a slot shares nothing: give each its own GPU, disk, network card and CPUs"
    return finding(resource, path, "slot_overlap", message, hint)


def _root(spec: NodeSpec, desired: Desired) -> tuple[str, ...]:
    """The parts of the way to a directory node's root, its address first; none for other nodes."""
    if spec.isolation is not Isolation.DIRECTORY:
        return ()
    folder = "" if spec.root.startswith("/") else desired.settings.folder
    parts = f"{folder}/{spec.root}".split("/")
    return (spec.address, *(part for part in parts if part not in ("", ".")))


@once
def _holders(desired: Desired) -> Mapping[tuple[str, str], set[str]]:
    """The nodes that claim a machine id, a host key, a GPU or a folder as theirs."""
    holders: dict[tuple[str, str], set[str]] = {}
    for ref, node in desired.resources.items():
        if ref.kind != "node":
            continue
        spec: NodeSpec = node.spec
        held = [("gpu", slot.gpu.uuid) for slot in spec.slots]
        held += [("key", key) for key in _keys_of_whole_host(spec)]
        if spec.identity:
            held.append(("machine", spec.identity.machine_id))
        if root := _root(spec, desired):
            held.append(("root", "/".join(root)))
        for device in held:
            holders.setdefault(device, set()).add(ref.name)
    return holders
