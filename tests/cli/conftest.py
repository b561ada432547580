"""Plans made by hand, and a screen that writes into memory."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pytest

from reconciler.cli.screen import Screen
from reconciler.model.host.capacity import Placement, Shape
from reconciler.model.plan.plan import (
    Action,
    Cause,
    Change,
    FieldChange,
    FleetFigures,
    Order,
    Plan,
    Risk,
    Step,
    Wave,
)
from reconciler.model.problem import Problem, Severity, Source
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.spec.revision import Revision
from tests.harness.items import make_item

GOLDEN = Path(__file__).parent / "golden"
ANA = Origin(commit="3f9c2e1aaaa", author="ana", email="ana@corp.example", signed=True)
OLGA = Origin(commit="77aa00b1234", author="olga")


@pytest.fixture(autouse=True)
def no_crash_report_outlives_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def allocation(name: str, project: str = "vision") -> Ref:
    return Ref("allocation", project, name)


BLOCKED = Change(
    ref=allocation("eval"),
    action=Action.BLOCKED,
    summary="waiting 3 h, position 1 of 1",
    file="specs/projects/vision/eval.yaml",
    line=1,
    origin=ANA,
    problem=Problem(
        code="sku_unavailable",
        message="40 nodes: 31 too few free slots · 5 other tenant on host · 4 not approved",
        hint="gpuaas explain allocation/vision/eval",
    ),
    facts={"nearest": "gpu05 has 3 of 4"},
)
HELD = Change(
    ref=allocation("sweep"),
    action=Action.RELEASE,
    risk=Risk.DESTROYS,
    summary="2 x H100",
    problem=Problem(code="held_for_approval", message="destroys more than was approved"),
)
RELEASE = Change(
    ref=allocation("old-run"),
    action=Action.RELEASE,
    risk=Risk.DESTROYS,
    summary="2 x H100 · owner ana · held 19 d",
    file="specs/projects/vision/old-run.yaml",
    origin=ANA,
    placement=Placement(node="gpu17", slots=("s3", "s4"), shape=Shape.GPU_SLICE),
    facts={
        "why": "file removed: specs/projects/vision/old-run.yaml in 3f9c2e1 by ana (signed)",
        "lost": "home, scratch",
        "ends": "unknown sessions",
    },
    steps=("a1", "a2"),
    gpus=2,
    price_per_hour={"EUR": "-4.20"},
)
RESTART = Change(
    ref=allocation("train-a"),
    action=Action.RESTART,
    risk=Risk.INTERRUPTS,
    summary='restart 0 -> 1 "driver hang"',
    file="specs/projects/vision/train-a.yaml",
    line=4,
    origin=ANA,
)
CREATE = Change(
    ref=allocation("quick", "nlp"),
    action=Action.CREATE,
    summary="1 x H100",
    file="specs/projects/nlp/quick.yaml",
    line=2,
    origin=OLGA,
    placement=Placement(
        node="gpu05",
        slots=("s2",),
        shape=Shape.GPU_SLICE,
        numa=(0,),
        fitting=9,
        why="tightest fit of 9",
    ),
    facts={"login": "quick-m3xd@gpu05", "note": "nothing outlives the release"},
    gpus=1,
    price_per_hour={"EUR": "2.10"},
)
CHANGE = Change(
    ref=Ref("user", "", "ana"),
    action=Action.CHANGE,
    summary="key added",
    file="specs/users/ana.yaml",
    line=1,
    origin=OLGA,
    fields=(
        FieldChange(path="spec.keys[laptop2]", after="SHA256:Zk1", rule="live"),
        FieldChange(path="spec.displayName", before="Ana", after="Ana Å", rule="none"),
        FieldChange(path="spec.env.HF_TOKEN", before="hf_aaaaaaaaaa", after="hf_bbbbbbbbbb"),
    ),
    normal={"spec": {"secretThing": "tok"}},
)
REPAIR = Change(
    ref=allocation("eval2"),
    action=Action.REPAIR,
    summary="/etc/gpuaas/ssh/eval2-p4aa edited by hand",
    caused_by=(Ref("node", "", "gpu09"),),
)
FROZEN = Change(
    ref=Ref("grant", "vision", "bo"),
    action=Action.FROZEN,
    summary="stays as last applied",
    file="specs/projects/vision/bo.yaml",
)
SILENCE = "no contact, since 2026-11-27T08:52:00Z; 4 allocations keep their claims"
PROBLEM = Problem(
    code="value_type",
    message="expected text, found a number",
    hint='quote it: "14"',
    source=Source(
        file="specs/projects/vision/bo.yaml",
        path=("spec", "reason"),
        line=7,
        column=11,
        text="  reason: 14",
    ),
)
WARNING = Problem(
    code="file_empty",
    message="the file holds no document",
    source=Source(file="specs/empty.yaml"),
    severity=Severity.WARNING,
)
STEP = Step(
    id="a1",
    verb="access.sync",
    node="gpu17",
    ref=allocation("old-run"),
    order=Order.RETIRE,
    item=make_item("access.sync", id="x", files=[{"content": "ssh-ed25519 SENT-TO-HOST"}]),
    expected={"/etc/gpuaas/ssh/old-run-aaaa": None},
)


def make(*changes: Change, **more: object) -> Plan:
    fields: dict[str, object] = {
        "revision": Revision(commit="3f9c2e1aaaa", branch="main"),
        "desired_digest": "sha256:0",
        "state_id": "s1",
        "serial": 1182,
        "made_at": "2026-11-27T09:14:00Z",
        "changes": changes,
        "figures": FleetFigures(
            nodes=40,
            answered=39,
            silent={"gpu31": SILENCE},
            observed_age=41,
            gpus=320,
            gpus_held_before=289,
            gpus_held_after=288,
            unchanged=214,
        ),
        "fingerprint": "sha256:7c1e44d0ffff",
    }
    return Plan(**(fields | more))  # type: ignore[arg-type]


@pytest.fixture
def full_plan() -> Plan:
    """One change of every sort."""
    return make(
        BLOCKED,
        HELD,
        RELEASE,
        RESTART,
        CREATE,
        CHANGE,
        REPAIR,
        FROZEN,
        problems=(PROBLEM, WARNING),
        waves=(Wave(number=1, steps=(STEP,)),),
    )


@pytest.fixture
def upgraded_plan() -> Plan:
    """What a new version alone brings, beside one change of a person."""

    def placed(number: int) -> Placement:
        return Placement(node=f"gpu{number % 12:02}", slots=("s0",), shape=Shape.GPU_SLICE)

    allocations = [
        Change(
            ref=allocation(f"train-{number:02}"),
            action=Action.CHANGE,
            cause=Cause.RERENDERED,
            summary="1 GPU · owner ana · held 3 d",
            file=f"specs/projects/vision/train-{number:02}.yaml",
            line=1,
            origin=ANA,
            placement=placed(number),
            facts={"access": "ana (laptop)"},
            steps=(f"k{number}",),
        )
        for number in range(37)
    ]
    hosts = [
        Change(
            ref=Ref("node", "", f"gpu{number:02}"),
            action=Action.CHANGE,
            risk=Risk.INTERRUPTS,
            cause=Cause.RERENDERED,
            summary="8 slots of h100, isolation account",
            facts={"prepare": "prepared otherwise than it would be now: sshd, PAM, slices"},
            steps=(f"p{number}",),
        )
        for number in range(12)
    ]
    return make(CHANGE, *hosts, *allocations, written_by="0.0.9")


@pytest.fixture
def quiet_plan() -> Plan:
    return make(figures=FleetFigures(nodes=3, answered=3, observed_age=5, gpus=24, unchanged=12))


class Terminal(io.TextIOWrapper):
    """A stream in memory that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8", *, terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    @property
    def shown(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(self.encoding)


class Watched:
    """A Screen with both streams in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, encoding: str, terminal: bool) -> None:
        self.out = Terminal(encoding, terminal=terminal)
        self.err = Terminal(encoding, terminal=terminal)
        monkeypatch.setattr("sys.stdout", self.out)
        monkeypatch.setattr("sys.stderr", self.err)
        self.screen = Screen()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch):
    """`watch(encoding, terminal, columns)` makes a screen to write to and to read from."""

    def make_screen(encoding: str = "utf-8", *, terminal: bool = False, columns: int = 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        return Watched(monkeypatch, encoding, terminal)

    return make_screen


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare with a file of `golden/`; a file that is missing is a failure, never a new truth."""

    def compare(name: str, shown: str) -> None:
        path = GOLDEN / name
        assert path.exists(), f"no {path.name}; it should hold:\n{shown}"
        assert shown == path.read_text(encoding="utf-8")

    return compare
