"""Proving: a rule for each thing that somebody can leave, a case for each rule and answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.host.evidence import (
    Check,
    CheckResult,
    GpuFact,
    NodeFacts,
    Observation,
    ProbeProblem,
)
from reconciler.model.host.facts.leftover import LeftoverWord
from reconciler.model.plan.plan import Order, Step
from reconciler.model.ref import Ref
from reconciler.planner.proof.checks import TOLERANCE_MIB, Devices, Inventory
from reconciler.planner.proof.rules import RULES, prove, roots_on
from tests.harness.items import make_item
from tests.planner import fleet as paper
from tests.planner.fleet import claim, desired

REF = Ref("allocation", "vision", "a")
AT = "2026-12-01T12:00:00Z"
ID, LOGIN, UID = "abcdefghij", "a-abcd", 20000
IDLE = 9
PASS, FAIL, UNKNOWN = CheckResult.PASS, CheckResult.FAIL, CheckResult.UNKNOWN

INVENTORY = Inventory(
    slots={
        "s0": Devices(gpu="GPU-0", drive="nvme-0"),
        "s1": Devices(gpu="GPU-1"),
    },
    idle_mib={"GPU-0": IDLE, "GPU-1": IDLE},
)
INSTANCES = "/var/lib/gpuaas/instances"
ATTACHED = f"attached {ID}/data"
GONE = (
    f"/etc/gpuaas/ssh/{LOGIN}",
    f"/home/{LOGIN}",
    f"/var/lib/gpuaas/scratch/{ID}",
    f"/etc/gpuaas/allocations/{ID}.json",
    *(f"{INSTANCES}/{place}/{LOGIN}" for place in ("shm", "tmp", "var-tmp")),
    *(f"{word} {LOGIN}" for word in ("account", "slice", "linger", "shm")),
    ATTACHED,
)
WORDS = {f"{word} *": "listed" for word in ("account", "slice", "linger", "shm", "attached")}
CARDS = tuple(
    GpuFact(uuid=f"GPU-{n}", pci_address="", model="", processes=(), memory_used_mib=IDLE)
    for n in (0, 1)
)
CLEAN = NodeFacts(
    source="host",
    machine_id="machine",
    boot_id="boot",
    gpus=CARDS,
    nvmes=("nvme-0",),
    card_errors={},
    holders={"GPU-0": (), "GPU-1": ()},
    drive_users={"nvme-0": ""},
    paths={},
    platform=WORDS,
    leftovers={str(UID): ()},
    descriptors={},
)


def step(uid: int = UID, gone: tuple[str, ...] = GONE) -> Step:
    return Step(
        id="1",
        verb="allocation.release",
        node="gpu01",
        ref=REF,
        order=Order.RETIRE,
        item=make_item("allocation.release", id=ID, uid=uid),
        expected=dict.fromkeys(gone),
    )


def released(slot: str | None = "s0", state: ClaimState = ClaimState.RELEASING) -> Claim:
    return claim("a", "gpu01", slot, allocation_id=ID, state=state)


def seen(**changes: Any) -> Observation:
    return Observation(node="gpu01", at=AT, facts=replace(CLEAN, **changes))


def checks(
    observed: Observation | None,
    of: Claim | None = None,
    inventory: Inventory = INVENTORY,
    asked: Step | None = None,
) -> Mapping[str, Check]:
    (proof,) = prove([of or released()], [asked or step()], observed, AT, inventory)
    assert proof.passed == all(check.result is PASS for check in proof.checks)
    return {check.name: check for check in proof.checks}


def failing(observed: Observation | None, **more: Any) -> dict[str, CheckResult]:
    found = checks(observed, **more).values()
    return {check.name: check.result for check in found if check.result is not PASS}


def left(*what: str) -> Observation:
    return seen(leftovers={str(UID): what})


def card(**changes: Any) -> Observation:
    return seen(gpus=(replace(CARDS[0], **changes), CARDS[1]))


def drive(user: str) -> Observation:
    return seen(drive_users={"nvme-0": user})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How a rule fails, and what leaves it unknown."""

    fails: Observation | None
    unknown: Observation | None
    check: str = ""


UNLISTED = seen(paths=None)
UNASKED = seen(leftovers=None)
WORDLESS = seen(platform=None)
CASES: Mapping[str, Row] = {
    "keys": Row(fails=seen(paths={GONE[0]: "file 0644 x"}), unknown=UNLISTED),
    "sessions": Row(fails=left("session 4"), unknown=UNASKED),
    "processes": Row(fails=left("process 812 sleep of back.service"), unknown=UNASKED),
    "sockets": Row(fails=left("socket tcp 0100007F:1F90"), unknown=UNASKED),
    "cron and at": Row(fails=left("crontab /var/spool/cron/crontabs/a"), unknown=UNASKED),
    "linger": Row(fails=seen(platform={**WORDS, f"linger {LOGIN}": "on"}), unknown=WORDLESS),
    "ipc": Row(fails=left("shm 7"), unknown=UNASKED),
    "keyrings": Row(fails=left("key 3 kept by the kernel"), unknown=UNASKED),
    "mounts": Row(fails=left("mount /mnt/x"), unknown=UNASKED),
    "files": Row(fails=left("file /opt/x", "and 3 more"), unknown=UNASKED),
    "open cards": Row(fails=left("open /dev/nvidia0 in process 9 sh of b-abcd"), unknown=UNASKED),
    "home": Row(fails=seen(paths={f"/home/{LOGIN}/x": "file 0644 x"}), unknown=UNLISTED),
    "scratch": Row(fails=seen(paths={GONE[2]: "dir 0700"}), unknown=UNLISTED),
    "tmp": Row(fails=seen(paths={GONE[5]: "dir 0700"}), unknown=UNLISTED),
    "shm": Row(fails=seen(platform={**WORDS, f"shm {LOGIN}": "tmpfs"}), unknown=WORDLESS),
    "account": Row(
        fails=seen(platform={**WORDS, f"account {LOGIN}": "uid=20000"}), unknown=WORDLESS
    ),
    "storage": Row(
        fails=seen(platform={**WORDS, ATTACHED: "abcdefghij rw at /data/a"}), unknown=WORDLESS
    ),
    "settings": Row(fails=seen(paths={GONE[3]: "file 0644 x"}), unknown=WORDLESS),
    "descriptor": Row(fails=seen(descriptors={ID: "state"}), unknown=seen(descriptors=None)),
    "processes on": Row(
        fails=card(processes=(8812,)), unknown=card(processes=None), check="processes on s0"
    ),
    "handles on": Row(
        fails=seen(holders={"GPU-0": ("process 9 python3 of root",), "GPU-1": ()}),
        unknown=seen(holders={"GPU-1": ()}),
        check="handles on s0",
    ),
    "memory of": Row(
        fails=card(memory_used_mib=IDLE + TOLERANCE_MIB + 1),
        unknown=card(memory_used_mib=None),
        check="memory of s0",
    ),
    "errors of": Row(fails=None, unknown=seen(card_errors=None), check="errors of s0"),
    "drive of": Row(
        fails=drive("mounted at /mnt"), unknown=seen(drive_users=None), check="drive of s0"
    ),
    "root": Row(fails=seen(), unknown=None),
}


def test_every_rule_has_a_row() -> None:
    assert [rule.name for rule in RULES] == list(CASES)


def test_a_clean_slot_is_proved() -> None:
    """F-PLC-04, REL-02: every rule with a measured value, and nothing claimed that was not done."""
    found = checks(seen())
    assert {check.result for check in found.values()} == {PASS}
    assert all(check.value for check in found.values())
    assert found["home"].value == "deleted, not erased"
    assert "card not reset" in found["memory of s0"].value
    assert failing(seen(), of=released(None)) == {}


@pytest.mark.parametrize("rule", [name for name in CASES if name != "root"])
def test_what_is_left_fails_its_rule_and_what_was_not_seen_leaves_it_unknown(rule: str) -> None:
    """F-PLC-05, REL-02, REL-03: by its name, so that whoever looks knows what to do."""
    row = CASES[rule]
    name = row.check or rule
    assert row.fails is None or failing(row.fails) == {name: FAIL}
    assert row.unknown is not None
    assert failing(row.unknown)[name] is UNKNOWN


def test_what_a_host_could_not_look_at_leaves_its_own_sort_unknown() -> None:
    """F-PLC-05: and what was found beside it fails all the same."""
    waits = "unknown open process 9 sh of b-abcd: 2 open files wait in its sockets"
    assert failing(left(waits, "and 3 more")) == {"open cards": UNKNOWN}
    assert checks(left(waits))["open cards"].value == waits
    assert failing(left("unknown file /x: does not answer")) == {"files": UNKNOWN}
    assert failing(left("unknown thing", "unknown", "unknown and so on")) == {"files": UNKNOWN}
    passed = checks(left("apart file /home/b-abcd of b-abcd: too many", "and 3 more"))["files"]
    assert passed.result is PASS
    assert passed.value == (
        f"none of uid {UID}; apart file /home/b-abcd of b-abcd: too many, and 3 more"
    )
    assert failing(left("apart file /x", "file /y")) == {"files": FAIL}
    both = left("open process 8 sh of b-abcd has /dev/nvidia0 open", waits)
    assert failing(both) == {"open cards": FAIL}


def test_what_failed_is_told_with_what_was_measured() -> None:
    found = checks(left("process 812 sleep of back.service", "file /opt/x"))
    assert found["processes"].value == "process 812 sleep of back.service"
    assert found["files"].value == "file /opt/x"
    blind = seen(leftovers=None, problems=(ProbeProblem(probe="leftovers", message="/x: late"),))
    assert checks(blind)["files"].value == f"not looked through for uid {UID}: /x: late"
    used = checks(card(memory_used_mib=500))["memory of s0"]
    assert used.value == "500 MiB in use, 9 MiB when idle"


@pytest.mark.parametrize(
    ("used", "idle", "result"),
    [
        (IDLE + TOLERANCE_MIB, IDLE, PASS),
        (IDLE + TOLERANCE_MIB + 1, IDLE, FAIL),
        (TOLERANCE_MIB, None, PASS),
        (TOLERANCE_MIB + 1, None, UNKNOWN),
    ],
)
def test_memory_is_held_against_what_the_card_used_when_idle(
    used: int, idle: int | None, result: CheckResult
) -> None:
    """Isolation 9: no baseline is a baseline of nothing."""
    known = {} if idle is None else {"GPU-0": idle}
    found = checks(card(memory_used_mib=used), inventory=replace(INVENTORY, idle_mib=known))
    assert found["memory of s0"].result is result


def test_nobody_was_asked_is_no_proof() -> None:
    """F-PLC-05: a wipe that is absent is as bad as one that failed."""
    without = tuple(key for key in GONE if not key.startswith("/home/"))
    assert failing(seen(), asked=step(gone=without)) == {"home": UNKNOWN}


def test_a_folder_without_an_account_is_judged_by_what_it_has() -> None:
    """A directory node has neither uid nor named facts: nothing of them is asked."""
    places = tuple(key for key in GONE[:4])
    found = checks(seen(platform=None, leftovers=None), asked=step(0, places))
    assert {"home", "scratch", "keys", "descriptor", "processes on s0"} <= found.keys()
    assert not {"sessions", "linger", "account"} & found.keys()
    assert all(check.result is PASS for check in found.values())


def test_a_fault_of_one_card_keeps_its_slot_alone() -> None:
    """F-PLC-04: a compute process that is still listed, by its number."""
    busy = card(processes=(8812,))
    assert failing(busy) == {"processes on s0": FAIL}
    assert failing(busy, of=released("s1")) == {}
    assert failing(busy, of=released(None)) == {"processes on s0": FAIL}
    assert failing(seen(gpus=()), of=released("s0"))["processes on s0"] is UNKNOWN


@pytest.mark.parametrize(
    ("before", "now", "result"),
    [
        ("machine", "machine", UNKNOWN),
        ("machine", "another", PASS),
        ("", "another", UNKNOWN),
        ("machine", "", UNKNOWN),
    ],
)
def test_whoever_was_root_leaves_a_host_to_be_installed_anew(
    before: str, now: str, result: CheckResult
) -> None:
    """Rule 3: such a host cannot prove itself clean; only another identity is."""
    rooted = replace(INVENTORY, roots=frozenset({ID}))
    of = replace(released(None), machine_id=before)
    found = checks(seen(machine_id=now), of=of, inventory=rooted)["root"]
    assert found.result is result
    assert result is PASS or found.value.startswith("reinstall_required")


@pytest.mark.parametrize(
    "observed", [None, Observation(node="gpu01", at=AT, problem="host_timeout", message="gone")]
)
def test_of_a_silent_host_nothing_is_proved(observed: Observation | None) -> None:
    """REL-08: not seen is not gone."""
    assert failing(observed) == {"host gpu01": UNKNOWN}


def test_without_devices_a_whole_node_is_not_proved() -> None:
    assert UNKNOWN in failing(seen(), of=released(None), inventory=Inventory(slots={})).values()


def test_only_what_these_steps_give_up_is_judged() -> None:
    """Neither a neighbour, nor one that is held, nor the same id elsewhere."""
    others = [
        claim("b", "gpu01", "s1", state=ClaimState.RELEASING),
        released(state=ClaimState.HELD),
        replace(released(), node="gpu02"),
    ]
    assert prove(others, [step()], seen(), AT, INVENTORY) == ()
    made = replace(step(), expected={GONE[1]: "dir 0700"})
    assert prove([released()], [made], seen(), AT, INVENTORY) == ()


@pytest.mark.parametrize(("gives_root", "roots"), [(False, []), (True, [ID])])
def test_who_may_have_been_root_is_known_by_his_sku(gives_root: bool, roots: list[str]) -> None:
    """Rule 3: and nobody on another node."""
    wanted = desired(
        [paper.sku("slice-1", 1, rootAccess=gives_root), paper.allocation("a", "slice-1")]
    )
    now = paper.world(wanted, claims=(claim("a", "gpu01", None, allocation_id=ID),))
    assert list(roots_on("gpu01", wanted, now)) == roots
    assert list(roots_on("gpu02", wanted, now)) == []


@pytest.mark.parametrize("word", LeftoverWord)
def test_no_sort_of_leftover_is_looked_at_by_no_rule(word: LeftoverWord) -> None:
    found = seen(leftovers={str(UID): (f"{word} left behind",)})
    (proof,) = prove([released()], [step()], found, AT, INVENTORY)
    assert not proof.passed
