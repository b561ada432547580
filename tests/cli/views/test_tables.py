"""Status, tables, events, show and explain: what they say, and that hostile text stays text."""

from __future__ import annotations

import pytest

from reconciler.cli.text import TextLine, render
from reconciler.cli.views import events as events_view
from reconciler.cli.views import explained as explained_view
from reconciler.cli.views import fleet as fleet_view
from reconciler.cli.views import shown as shown_view
from reconciler.cli.views import status as status_view
from reconciler.cli.views import tables
from reconciler.model.host.capacity import Candidate, Need, Placement, Shape
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.state.event import Event, EventType
from reconciler.model.state.world import Suspension
from reconciler.operations.views import (
    AllocationRow,
    Explained,
    LastRun,
    NeedsYou,
    NodeRow,
    PendingChanges,
    Shown,
    SkuRow,
    SlotRow,
    Status,
)

HOSTILE = "x\x1b[2J\nforged \u202egnp"


def text(lines) -> str:
    return "".join(render(one) + "\n" for one in lines)


def row(name: str, **more: object) -> AllocationRow:
    fields: dict[str, object] = {
        "ref": f"allocation/{name}",
        "owner": "ana",
        "sku": "h100-slice-1",
        "node": "gpu01",
        "slots": ("s0",),
        "phase": "active",
        "health": "healthy",
        "login": "x",
    }
    return AllocationRow(**(fields | more))  # type: ignore[arg-type]


STATUS = Status(
    state_id="s",
    serial=1182,
    at="2026-11-27T09:14:00Z",
    observed_age=41,
    nodes={"ready": 2, "unknown": 1},
    gpus={"held": 5, "free": 17, "unknown": 2},
    capacity=(
        SkuRow(sku="h100-slice-1", shape="gpu_slice", gpus=1, free=17, after_cleanup=19, held=5),
        SkuRow(sku="h100-node", shape="baremetal", gpus=8, free=0, after_cleanup=0, held=0),
    ),
    needs_you=(
        NeedsYou(
            kind="waiting",
            text="vision/eval sku_unavailable",
            command="gpuaas explain allocation/vision/eval",
        ),
        NeedsYou(kind="cleanup", text="gpu12/s5 process 8812 survives"),
        *(NeedsYou(kind="expiring", text=f"vision/sweep{n} in 20 h (ana)") for n in range(7)),
    ),
    allocations=(
        row(
            "nlp/quick",
            sessions=1,
            gpu_percent=37,
            price_per_hour="2.10",
            currency="EUR",
            sync="in_sync",
            until="2026-12-11T09:14:00Z",
        ),
        row(
            "nlp/sweep",
            sync="changes",
            sync_cause="change",
            sync_since="2026-11-27T09:13:30Z",
            until="2026-11-27T07:14:00Z",
        ),
        row(
            "vision/old-run",
            slots=("s3", "s4"),
            node="gpu17",
            phase="releasing",
            sync="in_sync",
            health="progressing",
            health_cause="wiping",
            health_since="2026-11-27T09:02:00Z",
        ),
        row(
            "vision/eval",
            node="",
            slots=(),
            phase="",
            health="-",
            owner=HOSTILE,
            sync="waiting",
            sync_cause="sku_unavailable",
            sync_since="2026-11-27T06:14:00Z",
        ),
    ),
    suspended=(
        Suspension(
            scope="node/gpu07",
            reason="PSU smoke",
            actor="olga",
            since="2026-11-27T03:12:00Z",
            until="2026-11-28T03:12:00Z",
        ),
    ),
    pending=PendingChanges(commit="3f9c2e1aa", changes=1, waiting=1),
    last_run=LastRun(
        id="r1", state="done", started="2026-11-27T09:14:00Z", actor="olga", commit="3f9c2e1aa"
    ),
)


def test_status_as_text(golden) -> None:
    golden("status.txt", text(status_view.lines(STATUS)))


def test_an_empty_fleet_has_a_status() -> None:
    empty = Status(state_id="s", serial=1, at="", observed_age=None)
    shown = text(status_view.lines(empty))
    assert "no allocations" in shown
    assert "never observed" in shown
    assert "nothing applied yet" in shown


def test_what_is_unknown_is_not_zero() -> None:
    """Sessions that no host reported are told as unknown."""
    shown = text(status_view.lines(STATUS)).splitlines()
    (old,) = [one for one in shown if one.startswith("vision/old-run")]
    assert "unknown" in old
    assert "gpu17/s3+1" in old


@pytest.mark.parametrize("width", [20, 40])
def test_narrow_tables_become_records(width: int) -> None:
    """F-CLI-05"""
    lines = list(status_view.lines(STATUS, width=width))
    shown = text(lines)
    assert "SKU h100-slice-1" in shown
    assert "ALLOCATION nlp/quick" in shown


def test_tables_align_what_is_shown() -> None:
    """F-CLI-03: an escaped cell does not shift its neighbours; empty columns are left out."""
    shown = text(tables.lines("NAME GAP N", [(HOSTILE, "", "1"), ("李", "", "22")], right="N"))
    head, first, second = shown.splitlines()
    assert "GAP" not in head
    assert len(head) == len(first)
    assert first.endswith(" 1")
    assert second.endswith("22")
    assert len(second) == len(first) - 1  # one letter of two columns


def test_fleet_tables() -> None:
    """PLC-16: a slot that is not free says its cause and since when."""
    nodes = (
        NodeRow(
            name="gpu31", posture="unknown", family="h100", isolation="account",
            slots=8, held=4, free=0, age=None, problem="host_unreachable",
        ),
        NodeRow(
            name="gpu01", posture="ready", family="h100", isolation="directory",
            slots=8, held=1, free=7, age=41, source="standin",
        ),
    )  # fmt: skip
    shown = text(fleet_view.nodes(nodes))
    assert "never" in shown
    assert "host_unreachable" in shown
    assert "standin" in shown
    slot = SlotRow(
        node="gpu12", slot="s5", state="cleanup_blocked", cause="process 8812 survives",
        since="2026-11-27T09:00:00Z", allocation="allocation/vision/old",
    )  # fmt: skip
    shown = text(fleet_view.slots([slot]))
    assert all(word in shown for word in ("gpu12/s5", "cleanup_blocked", "8812", "09:00"))
    assert "CLEAN" in text(fleet_view.capacity(STATUS.capacity))
    assert [
        text(view(())) for view in (fleet_view.nodes, fleet_view.slots, fleet_view.capacity)
    ] == [
        "no nodes\n",
        "no slots\n",
        "no SKUs\n",
    ]


def test_one_event_is_one_line() -> None:
    """F-CLI-03: neither a reason nor a ref can forge another event."""
    forged = Event(
        type=EventType.RECORDED,
        actor=HOSTILE,
        ref=f"user/{HOSTILE}",
        reason='ok"\n#99  2026-01-01T00:00:00Z  root  claimed',
        at="2026-11-27T09:14:00Z",
        sequence=12,
    )
    shown = text(events_view.lines([forged, forged]))
    assert shown.count("\n") == 2
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert all(one.startswith("#12 ") for one in shown.splitlines())
    assert isinstance(events_view.one(forged), TextLine)


def test_explain_names_every_rule() -> None:
    need = Need(
        ref=Ref("allocation", "vision", "eval"),
        sku="h100-slice-4",
        shape=Shape.GPU_SLICE,
        slots=4,
        families=("h100",),
        isolation=(),
        min_cpus_per_slot=0,
        min_memory_gib_per_slot=0,
        rdma=False,
        tenant="corp",
        project="vision",
    )
    found = Explained(
        ref="allocation/vision/eval",
        need=need,
        placement=None,
        candidates=(
            Candidate(node="gpu05", rule="too_few_free_slots", detail="3 of 4"),
            Candidate(node="gpu31", rule="node_unreachable"),
            Candidate(node="gpu32", rule="node_unreachable"),
        ),
        problem=Problem(code="sku_unavailable", message="no node has 4 free slots"),
    )
    shown = text(explained_view.lines(found))
    assert "4 slots on one node · SKU h100-slice-4" in shown
    assert "too_few_free_slots" in shown
    assert "[sku_unavailable]" in shown
    assert "3 nodes: 0 fit · 2 node_unreachable · 1 too_few_free_slots" in shown
    placed = Explained(
        ref="allocation/vision/eval",
        need=need,
        placement=Placement(node="gpu05", slots=("s2",), shape=Shape.GPU_SLICE, why="tightest"),
        candidates=(Candidate(node="gpu05", slots=("s2",), score=(1, 0)),),
    )
    assert "placed   gpu05/s2   tightest" in text(explained_view.lines(placed))


def test_show_keeps_the_four_states_apart() -> None:
    """STM-05: what git wants, what was applied, what hosts say, what was done about it."""
    found = Shown(
        ref="allocation/vision/a",
        desired={
            "labels": {},
            "spec": {"sku": "h100-slice-1", "env": {"HF_TOKEN": "hf_abcdefghij"}},
        },
        recorded=None,
        observed=None,
        execution=({"verb": "allocation.provide", "state": "done"},),
        facts={"login": "a-m3xd@gpu01"},
        file="specs/a.yaml",
        line=3,
    )
    shown = text(shown_view.lines(found))
    titles = [one.split("  ")[0] for one in shown.splitlines() if one[:1].isupper()]
    assert titles == ["DESIRED", "RECORDED", "OBSERVED", "EXECUTION"]
    assert "RECORDED  never applied" in shown
    assert "unknown: no host" in shown
    assert "hf_abc" not in shown
    assert "specs/a.yaml:3, not committed" in shown


def test_show_tells_what_left_from_what_never_was() -> None:
    """STM-05: a released resource is off the books, with each check of its proof."""
    left = Event(sequence=9, at="2026-11-27T09:14:00Z", actor="ana", type=EventType.FORGOTTEN)
    proof = {
        "node": "gpu02",
        "slot": "s7",
        "at": "2026-11-27T09:14:00Z",
        "source": "standin",
        "passed": True,
        "checks": [{"name": "/home/a-m3xd", "result": "pass", "value": "absent"}],
        "freed": "m3xd-s7",
    }
    found = Shown(
        ref="allocation/vision/a",
        desired=None,
        recorded=None,
        observed=None,
        execution=(),
        proofs=(proof,),
        events=(left,),
    )
    shown = text(shown_view.lines(found))
    assert "DESIRED  not in the specs" in shown
    assert "RECORDED  no longer on the books" in shown
    assert "  gpu02/s7  passed  2026-11-27T09:14:00Z  by standin  freed m3xd-s7" in shown
    assert "    pass    /home/a-m3xd (absent)" in shown
