"""A small state to break: its journal, a clock that moves, and makers of what it is given."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconciler.model.canonical import digest
from reconciler.model.host.capacity import Shape
from reconciler.model.host.evidence import Check, CheckResult, NodeFacts, Observation, Proof
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Order, Plan, Step
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.spec.revision import Revision
from reconciler.model.state.event import Actor
from reconciler.model.state.world import Recorded
from reconciler.store.file.database import Database
from reconciler.store.journal import Journal
from tests.harness.items import make_item

START = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
STATE_ID = "k7q2m3xdp4aa"


def ref(text: str) -> Ref:
    found = parse_ref(text)
    assert found is not None
    return found


@dataclass
class State:
    """The state under test; its clock moves a second with every look."""

    path: Path
    database: Database
    journal: Journal = field(init=False)
    now: datetime = START
    proofs: int = 0

    def __post_init__(self) -> None:
        self.journal = Journal(self.database, Actor(name="ana"), self.clock)

    def clock(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def raw(self) -> sqlite3.Connection:
        """A connection like that of the sqlite3 shell: no mode set, no trigger option."""
        return sqlite3.connect(self.path, isolation_level=None)

    def run(self) -> str:
        return self.journal.begin_run(plan())

    def hold(self, name: str = "a", node: str = "gpu01", slot: str | None = "s0") -> ClaimIntent:
        """An allocation that is active, with its claim held."""
        claim = make_claim(name, node, slot)
        step = make_step(name, node)
        run = self.run()
        self.journal.begin_wave(run, WaveIntent(steps=(step,), claims=(claim,)))
        self.journal.finish_wave(run, done(step), [make_recorded(name, node, slot)])
        return claim

    def hold_many(self, names: list[str]) -> None:
        """An allocation a node, all of them in one wave."""
        nodes = [f"gpu{number:03}" for number in range(len(names))]
        steps = [make_step(name, node) for name, node in zip(names, nodes, strict=True)]
        run = self.run()
        self.journal.begin_wave(
            run,
            WaveIntent(
                steps=tuple(steps),
                claims=tuple(
                    make_claim(name, node) for name, node in zip(names, nodes, strict=True)
                ),
            ),
        )
        recorded = [make_recorded(name, node) for name, node in zip(names, nodes, strict=True)]
        self.journal.finish_wave(run, done(*steps), recorded)

    def release(self, name: str = "a", node: str = "gpu01", *, run: str = "") -> str:
        """Its release has begun; the run goes on."""
        run = run or self.run()
        self.journal.begin_wave(
            run,
            WaveIntent(
                steps=(make_step(name, node, Order.RETIRE),),
                releasing=(ref(f"allocation/vision/{name}"),),
            ),
        )
        return run

    def prove(
        self,
        name: str = "a",
        node: str = "gpu01",
        slot: str | None = "s0",
        result: CheckResult = CheckResult.PASS,
    ) -> Proof:
        self.proofs += 1
        return Proof(
            id=f"proof-{self.proofs}",
            allocation_id=f"id-{name}",
            node=node,
            slot=slot,
            at="2026-11-01T12:30:00Z",
            boot_id="boot-1",
            checks=(Check(name="home_gone", result=result),),
        )

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self.database.connection.execute(query, values).fetchall()

    def claim_states(self) -> dict[str, str]:
        return dict(self.rows("SELECT id, state FROM claim ORDER BY id"))


def plan(**fields: Any) -> Plan:
    given: dict[str, Any] = {
        "revision": Revision(commit="3f9c2e1"),
        "desired_digest": "sha256:d",
        "state_id": STATE_ID,
        "serial": 1,
        "made_at": "2026-11-01T12:00:00Z",
        "fingerprint": "sha256:f",
    }
    return Plan(**(given | fields))


def make_claim(name: str, node: str = "gpu01", slot: str | None = "s0") -> ClaimIntent:
    return ClaimIntent(
        id=f"claim-{name}",
        allocation_id=f"id-{name}",
        ref=ref(f"allocation/vision/{name}"),
        node=node,
        slot=slot,
        shape=Shape.GPU_SLICE if slot else Shape.BAREMETAL,
        tenant="corp",
        project="vision",
    )


def make_step(name: str, node: str = "gpu01", order: Order = Order.PROVIDE) -> Step:
    verb = f"allocation.{'release' if order is Order.RETIRE else 'provide'}"
    return Step(
        id=f"{order.value}-{name}-{node}",
        verb=verb,
        node=node,
        ref=ref(f"allocation/vision/{name}"),
        order=order,
        item=make_item(verb, id=f"id-{name}"),
    )


def make_recorded(
    name: str, node: str = "gpu01", slot: str | None = "s0", **fields: Any
) -> Recorded:
    normal = {"labels": {}, "spec": {"sku": "h100-slice-1", "owner": "ana"}}
    given: dict[str, Any] = {
        "ref": ref(f"allocation/vision/{name}"),
        "normal": normal,
        "digest": digest(normal),
        "file": f"specs/{name}.yaml",
        "commit": "3f9c2e1",
        "id": f"id-{name}",
        "login": f"{name}-k7q2",
        "node": node,
        "slots": (slot,) if slot else (),
        "shape": Shape.GPU_SLICE if slot else Shape.BAREMETAL,
        "basis": "sha256:b",
        "facts": {f"/home/{name}-k7q2": "dir 0700", "/etc/old": None},
    }
    return Recorded(**(given | fields))


def make_observation(node: str = "gpu01", **fields: Any) -> Observation:
    given: dict[str, Any] = {
        "node": node,
        "at": "2026-11-01T12:00:30Z",
        "facts": NodeFacts(source="standin", machine_id="m1", boot_id="boot-1"),
        "digest": "sha256:o1",
    }
    return Observation(**(given | fields))


def done(*steps: Step, proofs: tuple[Proof, ...] = (), **fields: Any) -> WaveOutcome:
    return WaveOutcome(
        steps=tuple(StepOutcome(step=step, ok=True, changed=True) for step in steps),
        proofs=proofs,
        **fields,
    )
