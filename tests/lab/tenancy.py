"""Tenants on a lab host, without specs or state: steps of the kinds, Ansible, and the observe code.

What the operations do around it (plan, claims, journal) is tested where these are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reconciler import shipped
from reconciler.hosts.ansible.executor import RunOptions, run_wave
from reconciler.hosts.evidence import observe
from reconciler.hosts.prepare_commit import settle
from reconciler.kinds.allocation import allocation as allocation_kind
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.node import node as node_kind
from reconciler.model.host.capacity import Claim, ClaimState, Placement, Shape
from reconciler.model.host.evidence import NodeFacts, Observation, Proof
from reconciler.model.host.posix import loopback_of
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import Host as Address
from reconciler.model.plan.work import HostWork, Receipt, StepOutcome
from reconciler.model.ref import Ref
from reconciler.model.settings import NetworkSettings
from reconciler.model.spec.desired import Desired
from reconciler.planner.core.facts import differing
from reconciler.planner.lifecycle.templates import Renderer
from reconciler.planner.proof.checks import Devices, Inventory
from reconciler.planner.proof.rules import prove
from reconciler.planner.proof.verify_step import judge
from tests.harness.directory_host import PLAYBOOKS, Wish, ignore
from tests.lab import network, place
from tests.lab.host import Host
from tests.planner import fleet

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
MEMORY_GIB = 2

REACH = """
import errno, socket, sys
for place in sys.argv[1:]:
    address, _, port = place.rpartition(":")
    try:
        socket.create_connection((address, int(port)), timeout=3).close()
    except TimeoutError:
        print(place, "silence")
    except OSError as error:
        print(place, errno.errorcode[error.errno])
    else:
        print(place, "answered")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An allocation of one project on some slots, with the account that it was given."""

    name: str
    project: str
    owner: str
    slots: tuple[str, ...]
    id: str
    uid: int
    gid: int

    @property
    def ref(self) -> Ref:
        return Ref("allocation", self.project, self.name)

    @property
    def login(self) -> str:
        return f"{self.name}-{self.id[:4]}"

    @property
    def home(self) -> str:
        return f"/home/{self.login}"

    @property
    def loopback(self) -> str:
        return loopback_of(self.uid)


ANA = Tenant(
    name="train",
    project="vision",
    owner="ana",
    slots=("s0", "s1"),
    id="aaaabbbbcc",
    uid=50001,
    gid=50101,
)
BO = Tenant(
    name="notes", project="nlp", owner="bo", slots=("s2",), id="ddddeeeeff", uid=50002, gid=50102
)


def tenants(number: int) -> tuple[Tenant, Tenant]:
    """Both with numbers that no other test and no colony has: all of the lab have one kernel."""
    shift = 10 * number
    ana, bo = (replace(t, uid=t.uid + shift, gid=t.gid + shift) for t in (ANA, BO))
    return ana, bo


@dataclass(slots=True)
class Tenancy:
    """One host with its tenants; `extra` are further documents, as suspensions or grants."""

    host: Host
    folder: Path
    extra: list[dict[str, Any]] = field(default_factory=list)
    uuids: Mapping[str, str] = field(init=False)
    """Slot → UUID, as the cards of the host are."""
    minors: Mapping[str, int] = field(init=False)
    """UUID → minor, read from the long answer by a way of its own."""

    def __post_init__(self) -> None:
        told = self.host.run("nvidia-smi", "-q", "-x").stdout
        uuids = [part.split("<")[0] for part in told.split("<uuid>")[1:]]
        minors = [int(part.split("<")[0]) for part in told.split("<minor_number>")[1:]]
        self.uuids = {f"s{number}": uuid for number, uuid in enumerate(uuids)}
        self.minors = dict(zip(uuids, minors, strict=True))

    @property
    def node(self) -> str:
        return self.host.name

    def prepare(self) -> None:
        """Every wall stands, and what was written is kept."""
        of = self.desired()
        resource = of.resources[Ref("node", "", self.node)]
        whole = Placement(node=self.node, slots=(), shape=Shape.BAREMETAL)
        binding = Binding(
            ref=resource.ref, id="", login="", placement=whole, resource=resource, recorded=None
        )
        steps = node_kind.steps(binding, self.context(of))
        for outcome in self.outcomes(steps):
            assert outcome.ok, outcome.problem
        assert settle([self.address()], {self.node}, self.options()) == {self.node: ""}

    def provide(self, *tenants: Tenant) -> tuple[StepOutcome, ...]:
        """Provide, environment and access of each, in one wave."""
        return self.outcomes(tuple(step for tenant in tenants for step in self.steps(tenant)))

    def restore(self, *tenants: Tenant) -> None:
        """All of them as they should be, whatever was done to them."""
        steps = [step for tenant in tenants for step in self.steps(tenant)]
        expected = {key: fact for step in steps for key, fact in step.expected.items()}
        if list(differing(self.facts(), expected)):
            for outcome in self.provide(*tenants):
                assert outcome.ok, outcome.problem

    def release(self, tenant: Tenant) -> tuple[tuple[StepOutcome, ...], Proof]:
        steps = self.steps(tenant, gone=True)
        outcomes = self.outcomes(steps)
        return outcomes, self.proof(tenant)

    def proof(self, tenant: Tenant) -> Proof:
        """Of the first slot, from a look at the host that is taken now."""
        steps = self.steps(tenant, gone=True)
        claim = Claim(
            id=tenant.id,
            allocation_id=tenant.id,
            ref=tenant.ref,
            node=self.node,
            slot=tenant.slots[0],
            shape=Shape.GPU_SLICE,
            state=ClaimState.RELEASING,
            since="2026-12-01T12:00:00Z",
        )
        seen = self.seen(tenant.uid)
        slots = {name: Devices(gpu=uuid) for name, uuid in self.uuids.items()}
        (proof,) = prove([claim], steps, seen, seen.at, Inventory(slots=slots))
        return proof

    def steps(self, tenant: Tenant, gone: bool = False) -> tuple[Step, ...]:
        of = self.desired()
        binding = Binding(
            ref=tenant.ref,
            id=tenant.id,
            login=tenant.login,
            placement=Placement(node=self.node, slots=tenant.slots, shape=Shape.GPU_SLICE),
            resource=None if gone else of.resources[tenant.ref],
            recorded=None,
            uid=tenant.uid,
            gid=tenant.gid,
        )
        return allocation_kind.steps(binding, self.context(of))

    def outcomes(self, steps: tuple[Step, ...]) -> tuple[StepOutcome, ...]:
        """Done by the real executor, and judged by what the host then shows."""
        receipts = {receipt.step: receipt for receipt in self.run(steps)}
        seen = self.seen()
        return tuple(judge(step, receipts.get(step.id), seen) for step in steps)

    def run(self, steps: tuple[Step, ...]) -> tuple[Receipt, ...]:
        return run_wave(
            [HostWork(host=self.address(), steps=steps)], self.options(), ignore, Wish()
        )

    def seen(self, *uids: int) -> Observation:
        (observation,) = observe([self.address()], self.options(), at=NOW, prove={self.node: uids})
        assert observation.facts is not None, observation
        return observation

    def facts(self, *uids: int) -> NodeFacts:
        facts = self.seen(*uids).facts
        assert facts is not None
        return facts

    def enter(
        self, tenant: Tenant, script: str, person: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """What a person sees who logs in with a key of their own."""
        key = place.key(person or tenant.owner)
        options = self.host.ssh_options(key=key)
        address = f"{tenant.login}@{self.host.address}"
        return subprocess.run(
            ["ssh", *options, address, "bash -s"],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def reached(self, tenant: Tenant | None, *places: str) -> dict[str, str]:
        """What becomes of a connection to each address and port, tried by a tenant or by root."""
        script = f"python3 - {' '.join(places)} <<'E'\n{REACH}\nE\n"
        told = self.enter(tenant, script).stdout if tenant else self.host.run(script).stdout
        return dict(line.split(" ") for line in told.splitlines())

    def device(self, slot: str) -> str:
        return f"/dev/nvidia{self.minors[self.uuids[slot]]}"

    def address(self) -> Address:
        return Address(
            node=self.node,
            address=self.host.address,
            root="/",
            isolation="account",
            user="gpuaas",
            machine_id=self.host.machine_id(),
            host_keys=self.host.host_keys(),
            identity_file=str(place.key()),
        )

    def options(self) -> RunOptions:
        return RunOptions(run_dir=self.folder / "runs", playbooks=PLAYBOOKS)

    def context(self, of: Desired) -> Context:
        renderer = Renderer(shipped.templates())
        return Context(
            desired=of,
            world=fleet.world(of, observations={}),
            now=NOW,
            render=renderer.render,
            sign=lambda text: "0" * 64,
            origins={},
            template_digests=renderer.digests(),
        )

    def desired(self) -> Desired:
        """Two projects of one person each; later documents take the place of former ones."""
        slots = [
            fleet.slot(self.node, number, memoryGiB=MEMORY_GIB, numa=number // 2)
            for number in range(4)
        ]
        for one, uuid in zip(slots, self.uuids.values(), strict=False):
            one["gpu"]["uuid"] = uuid
        documents = [
            fleet.family(),
            fleet.node(
                self.node,
                slots,
                address=self.host.address,
                root="/",
                isolation="account",
                ssh={"user": "gpuaas"},
                identity={
                    "machineId": self.host.machine_id(),
                    "hostKeys": list(self.host.host_keys()),
                },
            ),
            fleet.sku("slice", 2, isolation=["account"]),
            *(person(name) for name in ("ana", "bo")),
            fleet.project("vision", "ana"),
            fleet.project("nlp", "bo"),
            *(
                fleet.allocation(t.name, "slice", t.project, owner=t.owner, access=[t.owner])
                for t in (ANA, BO)
            ),
            *self.extra,
        ]
        settings = replace(fleet.SETTINGS, network=NetworkSettings(closed=(network.OURS,)))
        return fleet.desired(documents, settings=settings)


def person(name: str, **changes: Any) -> dict[str, Any]:
    """Somebody with a key of the lab's own making, so that OpenSSH can log in with it."""
    keys = [{"id": "laptop", "publicKey": place.public(place.key(name))}]
    return fleet.user(name, **{"keys": keys, **changes})
