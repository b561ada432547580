"""Drift: all that a host shows otherwise or could not say, and whose business each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.canonical import digest
from reconciler.model.host.evidence import GpuFact, NodeFacts, Observation
from reconciler.model.plan.drift import Acceptance, Becomes, Drift, DriftClass
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded, World
from reconciler.planner.drift.detect import drifts
from tests.planner.fleet import NOW, base_fleet, desired, policy
from tests.planner.fleet import world as seen_by_all
from tests.planner.walk import settled

TRAIN, NODE = Ref("allocation", "vision", "train"), Ref("node", "", "gpu01")
KEYS, HOME, ENV = "/etc/gpuaas/ssh/train-a", "/home/train-a", "/etc/gpuaas/a.env"
UNIT = "/etc/systemd/system/user-20001.slice.d/60-gpuaas.conf"
SLICE = "slice train-a"
FACTS: Mapping[str, str | None] = {
    KEYS: "file 0644 sha256:a",
    ENV: "file 0644 sha256:b",
    UNIT: "file 0644 sha256:c",
    HOME: "dir 0700 20001:20100",
    "shm train-a": "tmpfs 1",
    SLICE: "policy=closed devices=GPU-gpu01-0 cpus=0-7",
    "account train-a": "uid=20001 groups=gpuaas-tenants",
}
PATHS = {key: fact for key, fact in FACTS.items() if key.startswith("/") and fact}
NAMED = {key: fact for key, fact in FACTS.items() if not key.startswith("/") and fact}
PLATFORM = {**NAMED, **{f"{key.partition(' ')[0]} *": "listed" for key in NAMED}}
FLEET = desired(base_fleet())


def world(**changes: object) -> World:
    """The hosts of the fleet as they are approved; gpu01 shows one allocation, with `changes`."""
    fleet = seen_by_all(FLEET)
    seen = fleet.observations["gpu01"]
    assert seen.facts is not None
    facts = replace(seen.facts, paths=PATHS, platform=PLATFORM)
    train = Recorded(
        ref=TRAIN, normal={}, digest="", id="a", login="train-a", node="gpu01", facts=FACTS
    )
    now_seen = replace(seen, facts=replace(facts, **changes))  # type: ignore[arg-type]
    return replace(
        fleet,
        recorded={TRAIN: train},
        observations={**fleet.observations, "gpu01": now_seen},
    )


def found(of: World, **rules: Any) -> tuple[Drift, ...]:
    wanted = desired([policy(**rules) if d["kind"] == "Policy" else d for d in base_fleet()])
    return drifts(wanted if rules else FLEET, of, NOW)


def told(of: World, **rules: Any) -> list[tuple[str, str, str, str]]:
    return [(str(d.ref), d.kind, d.becomes, d.text) for d in found(of, **rules)]


def only(of: World, **rules: Any) -> Drift:
    (one,) = found(of, **rules)
    return one


def without(facts: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: fact for key, fact in facts.items() if key not in keys}


def test_what_is_as_it_was_made_is_not_told() -> None:
    assert told(world()) == []
    assert told(world(paths={**PATHS, "/home/other": "dir 0777"})) == []


T = str(TRAIN)
SHOWN = {
    "keys by hand": (
        {"paths": {**PATHS, KEYS: "file 0644 sha256:x"}},
        (T, "access", "repaired", f"{KEYS} on gpu01 has other content"),
    ),
    "keys gone": (
        {"paths": without(PATHS, KEYS)},
        (T, "access", "repaired", f"{KEYS} on gpu01 is gone"),
    ),
    "unit removed": (
        {"paths": without(PATHS, UNIT)},
        (T, "platform", "repaired", f"{UNIT} on gpu01 is gone"),
    ),
    "env by hand": (
        {"paths": {**PATHS, ENV: "file 0666 sha256:b"}},
        (T, "platform", "repaired", f"{ENV} on gpu01 is file 0666 sha256:b, not {FACTS[ENV]}"),
    ),
    "unmounted": (
        {"platform": without(PLATFORM, "shm train-a")},
        (T, "platform", "repaired", "shm train-a on gpu01 is gone"),
    ),
    "other groups": (
        {"platform": {**PLATFORM, "account train-a": "uid=20001 groups=docker"}},
        (
            T,
            "access",
            "repaired",
            "account train-a on gpu01 is groups=docker, not groups=gpuaas-tenants",
        ),
    ),
    "home opened by its owner": (
        {"paths": {**PATHS, HOME: "dir 0755 20001:20100"}},
        (T, "user", "reported", f"{HOME} on gpu01 is dir 0755 20001:20100, not {FACTS[HOME]}"),
    ),
    "home gone": (
        {"paths": without(PATHS, HOME)},
        (T, "platform", "repaired", f"{HOME} on gpu01 is gone"),
    ),
    "home another's": (
        {"paths": {**PATHS, HOME: "dir 0700 0:0"}},
        (T, "platform", "repaired", f"{HOME} on gpu01 is dir 0700 0:0, not {FACTS[HOME]}"),
    ),
    "a key of a person's own": (
        {"stray_keys": {"train-a": ("SHA256:q0 (.ssh/authorized_keys)",)}},
        (T, "access", "reported", "key SHA256:q0 (.ssh/authorized_keys) opens nothing"),
    ),
    "keys of nobody": (
        {"paths": {**PATHS, "/etc/gpuaas/ssh/eve-aaaa": "file 0644 sha256:e"}},
        (
            str(NODE),
            "access",
            "reported",
            "/etc/gpuaas/ssh/eve-aaaa on gpu01 is there, and nobody's of ours",
        ),
    ),
    "another system": (
        {"os": "debian-13"},
        (str(NODE), "evidence", "reported", "os on gpu01: debian-13, family: debian-12"),
    ),
}


@pytest.mark.parametrize("case", SHOWN)
def test_each_difference_is_told_by_what_it_is(case: str) -> None:
    """F-ANS-14, STM-08, INV-17, rule 2: whose it is, and what becomes of it; a line a rule."""
    changes, line = SHOWN[case]
    assert told(world(**changes)) == [line]


def test_a_changed_driver_is_only_reported() -> None:
    """INV-17: no program of ours installs one."""
    seen = world().observations["gpu01"].facts
    assert seen is not None and seen.gpus
    one = only(world(gpus=tuple(replace(gpu, driver="999.1") for gpu in seen.gpus)))
    assert (one.ref, one.kind, one.becomes) == (NODE, DriftClass.EVIDENCE, Becomes.REPORTED)
    assert one.text == "driver on gpu01: 999.1, family: 570"


def test_a_card_that_is_gone_is_no_work_for_a_program() -> None:
    """F-PLC-10: the slice lacks a card that the machine does not show: told, never tried."""
    seen = world().observations["gpu01"].facts
    assert seen is not None and seen.gpus
    fewer: tuple[GpuFact, ...] = seen.gpus[1:]
    slices = {**PLATFORM, SLICE: "policy=closed devices= cpus=0-7"}
    kinds = {(d.key, d.kind, d.becomes) for d in found(world(gpus=fewer, platform=slices))}
    assert kinds == {
        (SLICE, DriftClass.EVIDENCE, Becomes.REPORTED),
        ("cards", DriftClass.EVIDENCE, Becomes.REPORTED),
    }
    assert only(world(platform=slices)).becomes is Becomes.REPAIRED


def test_what_could_not_be_checked_is_told_as_that() -> None:
    """F-ANS-14, F-ANS-03: a listing that failed, and a setting that nobody told."""
    unseen = found(world(paths=None, platform=None))
    assert {d.becomes for d in unseen} == {Becomes.UNCHECKED}
    assert {d.key for d in unseen} == FACTS.keys()
    one = only(world(platform={**PLATFORM, "shm train-a": "unknown: no answer"}))
    assert (one.becomes, one.text) == (
        Becomes.UNCHECKED,
        "shm train-a on gpu01: unknown: no answer",
    )


def test_of_what_is_silent_or_under_way_nothing_is_told() -> None:
    changed = world(paths={})
    silent = replace(changed.observations["gpu01"], facts=None, problem="host_timeout")
    assert told(replace(changed, observations={"gpu01": silent})) == []
    for phase in (Phase.PROVIDING, Phase.FAILED, Phase.RELEASING):
        leaving = replace(changed.recorded[TRAIN], phase=phase)
        assert told(replace(changed, recorded={TRAIN: leaving})) == []


def test_what_is_in_quarantine_is_watched_and_left_as_it_is() -> None:
    shut = replace(world().recorded[TRAIN], phase=Phase.QUARANTINED, facts={**FACTS, KEYS: None})
    one = only(replace(world(), recorded={TRAIN: shut}))
    assert (one.kind, one.becomes) == (DriftClass.ACCESS, Becomes.REPORTED)
    assert one.text == f"{KEYS} on gpu01 is there"


# What is let be.

UNTIL, PAST = "2026-12-20T00:00:00Z", "2026-11-30T00:00:00Z"
WORD = Acceptance(ref=TRAIN, key=ENV, owner="olga", reason="a trial", until=UNTIL, shown="file x")


def given(shown: str | None, until: str = UNTIL, key: str = ENV) -> World:
    paths = {**PATHS, key: shown} if shown else without(PATHS, key)
    word = replace(WORD, key=key, until=until)
    return replace(world(paths=paths), accepted_drift=(word,))


ACCEPTED = {
    "just this": (given("file x"), Becomes.ACCEPTED),
    "something else by now": (given("file y"), Becomes.REPAIRED),
    "gone by now": (given(None), Becomes.REPAIRED),
    "over": (given("file x", PAST), Becomes.REPAIRED),
    "without an end": (given("file x", ""), Becomes.REPAIRED),
    "a door": (given("file x", key=KEYS), Becomes.REPAIRED),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_word_is_good_for_what_was_seen_until_it_ends(case: str) -> None:
    """STM-08, rule 10: never for who may log in, which would be a grant by the back door."""
    of, becomes = ACCEPTED[case]
    assert only(of).becomes is becomes


def test_the_policy_accepts_whatever_is_shown_but_no_door() -> None:
    entry = {"ref": str(TRAIN), "key": ENV, "reason": "a trial", "owner": "olga", "until": UNTIL}
    for paths in ({**PATHS, ENV: "file y"}, without(PATHS, ENV)):
        one = only(world(paths=paths), acceptedDrift=[entry])
        assert (one.becomes, one.accepted and one.accepted.owner) == (Becomes.ACCEPTED, "olga")
    late = only(world(paths=without(PATHS, ENV)), acceptedDrift=[{**entry, "until": PAST}])
    assert late.becomes is Becomes.REPAIRED
    door = only(world(paths=without(PATHS, KEYS)), acceptedDrift=[{**entry, "key": KEYS}])
    assert door.becomes is Becomes.REPAIRED


def test_the_policy_says_class_by_class_what_is_put_right() -> None:
    """STM-08."""
    both = world(paths=without(PATHS, ENV, KEYS))
    for word, kept in (("platform", ENV), ("access", KEYS)):
        becomes = {d.key: d.becomes for d in found(both, repair={word: "never"})}
        assert becomes.pop(kept) is Becomes.REPORTED
        assert set(becomes.values()) == {Becomes.REPAIRED}


def test_what_is_unknown_is_accepted_by_nobody() -> None:
    entry = {"ref": str(TRAIN), "key": ENV, "reason": "a trial", "owner": "olga", "until": UNTIL}
    unseen = found(world(paths=None), acceptedDrift=[entry])
    assert {d.becomes for d in unseen} == {Becomes.UNCHECKED}


def test_a_fleet_that_was_never_asked_has_no_drift() -> None:
    none = World(state_id="s", serial=1, recorded={})
    assert drifts(FLEET, none, NOW) == ()
    facts = NodeFacts(source="host")
    stranger = Observation(node="elsewhere", at="", facts=facts, digest=digest({}))
    assert drifts(FLEET, replace(none, observations={"elsewhere": stranger}), NOW) == ()


def sold(slots: int, **changes: Any) -> list[tuple[str, str]]:
    """What is said of SKUs once gpu01 and gpu02 have so many slots, and gpu01 shows `changes`."""
    documents = base_fleet(slots=slots)
    wanted = desired(documents)
    state = settled(documents)
    if changes:
        seen = state.observations["gpu01"]
        assert seen.facts is not None
        other = replace(seen, facts=replace(seen.facts, **changes))
        state = replace(state, observations={**state.observations, "gpu01": other})
    return [(str(d.ref), d.text) for d in drifts(wanted, state, NOW) if d.ref.kind == "sku"]


def test_a_sku_that_no_sound_host_can_serve_is_told() -> None:
    """INV-12 F-REAL-23: by slots that are too few, and by what hosts show of their cards."""
    assert sold(8) == []
    (one,) = sold(4)
    assert one[0] == "sku/slice-8"
    assert one[1].startswith("no sound host can serve it: gpu01 node_too_small")
    assert sold(8, gpus=()) == [], "gpu02 serves it still"


def test_a_sku_is_not_given_up_for_hosts_that_are_put_off() -> None:
    """INV-12: of a host that is silent nobody can say that it serves nothing."""
    documents = base_fleet(1, slots=4)
    wanted, state = desired(documents), settled(documents)
    gone = {name: replace(seen, facts=None) for name, seen in state.observations.items()}
    found = drifts(wanted, replace(state, observations=gone), NOW)
    assert [d for d in found if d.ref.kind == "sku"] == []
