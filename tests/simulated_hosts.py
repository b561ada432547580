"""Hosts without a fault, imagined: they do what they are asked at once and show it afterwards.

For measuring, and for walks over fleets larger than any laboratory; what real hosts do is tested
with real Ansible elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from reconciler.hosts.evidence import Question
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.evidence import GpuFact, NodeFacts, Observation
from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import Host, HostProgress, HostWork, Receipt
from reconciler.model.spec.desired import Desired
from reconciler.operations import observe as operations_observe
from reconciler.operations.apply.walk import Walk
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.journal import writing
from reconciler.operations.open import open_fleet
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.operations.signals import Interrupts
from reconciler.operations.specs import read_desired

DRIVER = "570.133.20"
LISTED = tuple(
    f"{word} *"
    for word in [
        "account",
        "attached",
        "current",
        "linger",
        "loopback",
        "quota",
        "runtime",
        "shm",
        "slice",
        "subids",
    ]
)


class FaultlessHosts:
    """Every node of a fleet with what stands on it now."""

    def __init__(self, desired: Desired) -> None:
        self.specs: Mapping[str, Any] = {node.ref.name: node.spec for node in desired.of("node")}
        self.paths: dict[str, dict[str, str]] = {name: {} for name in self.specs}
        self.descriptors: dict[str, dict[str, str]] = {name: {} for name in self.specs}
        self.volumes: dict[str, dict[str, str]] = {name: {} for name in self.specs}

    def spoil(self, below: str, fact: str) -> None:
        """Somebody has changed the first path `below` on each of them."""
        for paths in self.paths.values():
            if found := next((path for path in sorted(paths) if path.startswith(below)), ""):
                paths[found] = fact

    def run_wave(
        self,
        works: Sequence[HostWork],
        options: object,
        on_progress: Callable[[HostProgress], None],
        stop: object,
        answered: object,
    ) -> tuple[Receipt, ...]:
        return tuple(self._receipts(works))

    def _receipts(self, works: Sequence[HostWork]) -> Iterator[Receipt]:
        for work in works:
            node = work.host.node
            for step in work.steps:
                for path, fact in step.expected.items():
                    if fact is None:
                        self.paths[node].pop(path, None)
                    else:
                        self.paths[node][path] = fact
                self._note_descriptors(node, encode(step.item))
                self._note_volumes(node, encode(step.item))
                self._note_runtimes(node, step)
                yield Receipt(step=step.id, node=node, verb=step.verb, ok=True, changed=True)

    def _note_descriptors(self, node: str, item: Mapping[str, Any]) -> None:
        for file in item.get("files", ()):
            if Path(file["path"]).parent.name == "allocations" and file["path"].endswith(".json"):
                told = json.loads(file["content"])
                self.descriptors[node][told["id"]] = file["content"]
        for path in item.get("absent", ()):
            self.descriptors[node].pop(Path(path).stem, None)

    def _note_volumes(self, node: str, item: Mapping[str, Any]) -> None:
        """Records of what is attached; nobody else has it."""
        for volume in item.get("volumes", ()):
            if "record" in volume:
                told = {"record": json.loads(volume["record"]), "holders": []}
                self.volumes[node][volume["id"]] = json.dumps(told)

    def _note_runtimes(self, node: str, step: Step) -> None:
        """Built at once, of whatever their requirements are."""
        if step.verb in ("runtime.stage", "runtime.repair"):
            bundle, version = step.item.bundle, step.item.version
            self.paths[node][f"runtime {bundle}/{version}"] = f"staged {step.item.lock_digest}"
            if step.item.current:
                self.paths[node][f"current {bundle}"] = step.item.current

    def settle(
        self, hosts: Sequence[Host], keep: Collection[str], options: object
    ) -> Mapping[str, str]:
        """What was prepared is kept, and a new connection works."""
        return {host.node: "" for host in hosts}

    def observe(
        self, hosts: Iterable[Host], options: object, *, at: datetime, **question: object
    ) -> tuple[Observation, ...]:
        """`question` is what real hosts are asked beyond what they always tell."""
        return tuple(self.observation(host.node, at) for host in hosts)

    def ask(
        self, asked: Iterable[tuple[Host, Question]], options: object, *, at: datetime
    ) -> tuple[Observation, ...]:
        return tuple(self._answer(host.node, question, at) for host, question in asked)

    def _answer(self, node: str, question: Question, at: datetime) -> Observation:
        """With the texts that a rebuild is made from, where they are asked for."""
        told = self.observation(node, at)
        if not question.descriptors or told.facts is None:
            return told
        texts = {"descriptor_texts": self.descriptors[node], "volume_texts": self.volumes[node]}
        return replace(told, facts=replace(told.facts, **texts))

    def observation(self, node: str, at: datetime) -> Observation:
        spec = self.specs[node]
        facts = NodeFacts(
            source="standin",
            machine_id=spec.identity.machine_id if spec.identity else "",
            boot_id="00000000-0000-4000-8000-000000000000",
            os="debian-12",
            memory_mib=1024 * sum(s.memory_gib for s in spec.slots)
            + 1024 * spec.reserve.memory_gib,
            gpus=tuple(
                GpuFact(
                    uuid=slot.gpu.uuid,
                    pci_address=slot.gpu.pci_address,
                    model=slot.gpu.model,
                    memory_mib=slot.gpu.memory_mib,
                    memory_used_mib=0,
                    driver=DRIVER,
                    numa=slot.numa,
                    processes=(),
                )
                for slot in spec.slots
            ),
            card_errors={},
            platform={**dict.fromkeys(LISTED, "listed"), **_named(self.paths[node])},
            nvmes=tuple(slot.nvme.id for slot in spec.slots if slot.nvme),
            nics={slot.nic.pci_address: slot.nic.name for slot in spec.slots if slot.nic},
            paths=_paths(self.paths[node]),
            descriptors={
                id: json.loads(text)["stateId"]
                for id, text in sorted(self.descriptors[node].items())
            },
            sessions={},
            sizes={},
        )
        return Observation(
            node=node, at=format_moment(at), facts=facts, digest=digest(encode(facts))
        )


def _paths(shown: Mapping[str, str]) -> Mapping[str, str]:
    return {key: fact for key, fact in sorted(shown.items()) if key.startswith("/")}


def _named(shown: Mapping[str, str]) -> Mapping[str, str]:
    return {key: fact for key, fact in sorted(shown.items()) if not key.startswith("/")}


PATCHED = (
    "apply.wave.work.run_wave",
    "apply.wave.work.observe",
    "apply.wave.work.settle",
    "observe.ask",
    "state.collect.ask",
)
"""Every door through which operations reach hosts."""


@contextmanager
def in_place_of_real_hosts(hosts: FaultlessHosts) -> Iterator[None]:
    """Within it, operations reach these hosts and no others."""
    rooms = "reconciler.operations."
    with ExitStack() as stack:
        for where in PATCHED:
            stack.enter_context(patch(rooms + where, getattr(hosts, where.rpartition(".")[2])))
        yield


def settle(fleet: Fleet) -> None:
    """Do all that specs ask for, as one apply would; afterwards there is nothing to do."""
    desired = read_desired(fleet)
    hosts = FaultlessHosts(desired)
    with (
        without_collector(),
        in_place_of_real_hosts(hosts),
        writing(fleet, "apply") as journal,
        Interrupts() as interrupts,
    ):
        journal.observe([hosts.observation(name, fleet.now()) for name in hosts.specs])
        world = journal.world()
        walk = Walk(
            fleet=fleet,
            journal=journal,
            plan=plan_from(fleet, desired, world, PlanOptions()),
            desired=desired,
            world=world,
            on_progress=lambda progress: None,
            interrupts=interrupts,
        )
        walk.run(saved=False)
    if walk.problems:
        raise SystemExit(f"{len(walk.problems)} problems, as {walk.problems[0]}")


def look(fleet: Fleet) -> None:
    """Only observe every node."""
    with in_place_of_real_hosts(FaultlessHosts(read_desired(fleet))):
        operations_observe.refresh(fleet)


if __name__ == "__main__":
    {"settle": settle, "look": look}[sys.argv[1]](open_fleet(Path(sys.argv[2])))
