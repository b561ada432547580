"""What ends a doubt about a node, and what keeps it: measured, or it stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.host.evidence import CheckResult, GpuFact, NodeFacts, Observation
from reconciler.model.spec.desired import Desired
from reconciler.model.state.rebuilt import JudgedDoubts
from reconciler.model.state.world import Counters, Doubt, DoubtKind, World
from reconciler.planner.rebuild.taints import judge_doubts
from tests.planner.fleet import claim, desired, family, node, observation, world

SINCE = "2026-11-01T00:00:00Z"
WORDS = ("account", "slice", "cron", "at", "shm", "loopback", "linger")
LISTED = {f"{word} *": "listed" for word in WORDS}
HELD_BY_NOBODY: dict[str, tuple[str, ...]] = {"GPU-gpu01-0": (), "GPU-gpu01-1": ()}
IDENTITY = {"machineId": "m" * 32, "hostKeys": ["ssh-ed25519 AAAA"]}


def doubt(kind: DoubtKind) -> Doubt:
    return Doubt(node="gpu01", kind=kind, reason="lost", since=SINCE)


def fleet(isolation: str = "directory") -> Desired:
    more = {"identity": IDENTITY, "root": "/", "address": "10.0.0.1"}
    changes = {"isolation": isolation, **(more if isolation == "account" else {})}
    return desired([family(), node("gpu01", 2, **changes)])


def of(wanted: Desired) -> World:
    """One allocation on s0, known by id, login and uid."""
    return replace(
        world(wanted),
        claims=(claim("train", "gpu01", "s0"),),
        counters=Counters(login_of={"train-id": "train-aaaa"}, uids={"train-id": 20001}),
    )


def seen(wanted: Desired, **facts: Any) -> Observation:
    (resource,) = wanted.of("node")
    idle = [
        GpuFact(
            uuid=slot.gpu.uuid,
            pci_address=slot.gpu.pci_address,
            model=slot.gpu.model,
            memory_used_mib=9,
            processes=(),
        )
        for slot in resource.spec.slots
    ]
    told: dict[str, Any] = {"gpus": tuple(idle), "descriptors": {"train-id": "state-1"}, **facts}
    return observation(resource, **told)


def judged(kind: DoubtKind, isolation: str = "directory", **facts: Any) -> JudgedDoubts:
    wanted = fleet(isolation)
    if isolation == "account":
        facts = {"platform": LISTED, "strangers": {}, "holders": HELD_BY_NOBODY, **facts}
    return judge_doubts(wanted, of(wanted), [doubt(kind)], {"gpu01": seen(wanted, **facts)})


def reason(found: JudgedDoubts) -> str:
    assert not found.ended
    (kept,) = found.kept
    assert (kept.node, kept.since) == ("gpu01", SINCE)
    return kept.reason


@pytest.mark.parametrize("isolation", ["directory", "account"])
@pytest.mark.parametrize("kind", DoubtKind)
def test_a_clean_host_ends_it_with_what_was_measured(kind: DoubtKind, isolation: str) -> None:
    (ended,) = judged(kind, isolation).ended
    assert ended.checks and all(check.result is CheckResult.PASS for check in ended.checks)


def test_what_is_not_taken_in_is_unseen() -> None:
    """Unknown never creates twice: it may be one that git wants."""
    found = judged(DoubtKind.UNSEEN, descriptors={"train-id": "state-1", "gone": "state-1"})
    assert reason(found) == "allocations gone"
    assert reason(judged(DoubtKind.UNSEEN, descriptors=None)) == "allocations not told"


@pytest.mark.parametrize(
    ("isolation", "facts", "told"),
    [
        ("directory", {"paths": None}, "paths not told"),
        ("directory", {"paths": {"/home/gone-abcd": "dir 0700"}}, "paths /home/gone-abcd"),
        ("directory", {"gpus": None}, "cards not told"),
        ("account", {"platform": None}, "tenants not told"),
        (
            "account",
            {"platform": {k: v for k, v in LISTED.items() if k != "shm *"}},
            "tenants shm not told",
        ),
        (
            "account",
            {"platform": {**LISTED, "account gone-abcd": "uid=20002"}},
            "tenants account gone-abcd",
        ),
        ("account", {"strangers": None}, "strangers not told"),
        ("account", {"holders": None}, "handles on s1 not told"),
        (
            "account",
            {"holders": {**HELD_BY_NOBODY, "GPU-gpu01-1": ("process 7 python3 of root",)}},
            "handles on s1 process 7 python3 of root",
        ),
        (
            "account",
            {"strangers": {"20001": ("process 1 bash",), "20007": ("process 4 sleep", "file /x")}},
            "strangers process 4 sleep, file /x of uid 20007",
        ),
        (
            "account",
            {"strangers": {"cards": ("process 4 python of train-aaaa has /dev/nvidia1 open",)}},
            "strangers process 4 python of train-aaaa has /dev/nvidia1 open",
        ),
    ],
)
def test_what_keeps_a_slot_unproved(isolation: str, facts: dict[str, Any], told: str) -> None:
    """F-PLC-04, F-PLC-05: each by its name, and what could not be looked at as well."""
    assert reason(judged(DoubtKind.UNPROVED, isolation, **facts)) == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"processes": (4711,)}, "card of s1 processes 4711"),
        ({"processes": None}, "card of s1 not told"),
        ({"memory_used_mib": None}, "card of s1 not told"),
        ({"memory_used_mib": 40_000}, "card of s1 40000 MiB in use by nobody"),
    ],
)
def test_a_free_card_is_idle(changes: dict[str, Any], told: str) -> None:
    """F-PLC-04: one that is held may be in use, one that is free may not."""
    wanted = fleet()
    facts = seen(wanted).facts
    assert facts is not None and facts.gpus is not None
    busy = tuple(replace(gpu, **changes) for gpu in facts.gpus)
    assert reason(judged(DoubtKind.UNPROVED, gpus=busy)) == told


def test_no_answer_ends_nothing() -> None:
    """Nothing seen is not nothing there; a node that was not asked keeps its doubt untold."""
    wanted = fleet()
    silent = Observation(node="gpu01", at=SINCE, problem="host_unreachable", message="no route")
    for kind in DoubtKind:
        found = judge_doubts(wanted, of(wanted), [doubt(kind)], {"gpu01": silent})
        assert reason(found) == "answer no route"
        assert judge_doubts(wanted, of(wanted), [doubt(kind)], {}) == JudgedDoubts()
    elsewhere = replace(doubt(DoubtKind.UNPROVED), node="gone")
    facts = Observation(node="gone", at=SINCE, facts=NodeFacts(source="host"))
    found = judge_doubts(wanted, of(wanted), [elsewhere], {"gone": facts})
    assert found.kept[0].reason == "answer it is in no spec"
