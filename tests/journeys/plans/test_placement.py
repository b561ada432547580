"""Places: who gets a slot and who does not, over real specs, state and hosts."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.model.plan.plan import Action, Plan
from reconciler.model.problem import ProblemError
from reconciler.operations.fleet import utc_now
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import make_plan
from reconciler.operations.show.explain import explain
from tests.harness.yard import Yard, card, copy_of, node
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

WANTED = "allocation/vision/wanted"


def wanted(sku: str = "slice-1", on: str | None = None) -> dict[str, object]:
    return paper.allocation("wanted", sku, **({"node": on} if on else {}))


def test_what_fits_nowhere_is_refused_with_its_reasons(yard: Yard) -> None:
    """PLC-04, PLC-05, PLC-07, F-CLI-06: one code, the count of each rule, and no claim at all.

    Two GPUs are free of each kind but never on one node; a whole node is refused where a slice
    is, and a slice where somebody has the whole node.
    """
    reasons = {
        ("slice-2", None): {"too_few_free_slots": 2, "node_exclusive": 1},
        ("whole", "gpu02"): {"other_node": 2, "node_has_slices": 1},
        ("whole", "gpu01"): {"other_node": 2, "node_has_slices": 1},
        ("slice-1", "gpu03"): {"other_node": 2, "node_exclusive": 1},
    }
    for (sku, on), rules in reasons.items():
        yard.write(wanted(sku, on))
        yard.commit()
        refused = yard.apply()
        assert (refused.code, refused.blocked) == (3, {WANTED: "sku_unavailable"}), (sku, on)
        assert refused.change(WANTED)["problem"]["message"].startswith("3 nodes: ")
        explained = yard.gpuaas("explain", WANTED).document["result"]["candidates"]
        assert sorted(one["rule"] for one in explained) == sorted(
            rule for rule, count in rules.items() for _ in range(count)
        )
    assert yard.rows("SELECT count(*) FROM claim") == [(4,)]
    assert [str(ref) for ref in yard.world.waiting] == [WANTED]


def test_who_is_gone_waits_no_longer_and_is_no_evidence(yard: Yard) -> None:
    """Rules 7 and 17: a request taken back, and a node whose name another may get."""
    yard.write(wanted("slice-2"), node("gpu04", 1))
    assert yard.apply().blocked == {WANTED: "sku_unavailable"}
    assert yard.gpuaas("status").document["result"]["needsYou"][0]["kind"] == "waiting"
    assert yard.world.observations["gpu04"].problem == "host_unreachable"
    yard.remove(wanted(), node("gpu04", 1))
    assert yard.apply().code == 0
    assert yard.world.waiting == {}
    assert "gpu04" not in yard.world.observations
    assert yard.gpuaas("status").document["result"]["needsYou"] == []


def test_a_node_that_is_drained_keeps_whom_it_has(yard: Yard) -> None:
    """PLC-13, PLC-15, PLC-16: draining or unavailable, it takes nobody new and loses nobody."""
    runs = yard.runs
    for state, rule in (("draining", "node_draining"), ("unavailable", "node_unavailable")):
        yard.write(node("gpu02", 2, admin={"state": state, "reason": "new fans"}))
        yard.write(wanted(on="gpu02"))
        yard.commit()
        done = yard.apply()
        assert done.blocked == {WANTED: "sku_unavailable"}
        explained = yard.gpuaas("explain", WANTED).document["result"]["candidates"]
        assert rule in {one["rule"] for one in explained}
        assert yard.claims["allocation/vision/solo@gpu02/s0"] == "held"
        rows = {one["name"]: one for one in yard.gpuaas("nodes").document["result"]}
        assert rows["gpu02"]["posture"] == state
        slots = {
            one["slot"]: one
            for one in yard.gpuaas("slots").document["result"]
            if one["node"] == "gpu02"
        }
        assert (slots["s0"]["state"], slots["s1"]["state"]) == ("held", state)
        assert "new fans" in slots["s1"]["cause"]
    assert yard.runs == runs


def test_old_evidence_is_renewed_by_apply_and_named_by_plan(yard: Yard) -> None:
    """PLC-15, INV-10: a plan alone places nothing on it; an apply looks before it plans."""
    yard.write(wanted())
    later = yard.fleet(utc_now() + timedelta(hours=2))
    (change,) = make_plan(later, PlanOptions()).changes
    assert (str(change.ref), change.action) == (WANTED, Action.BLOCKED)
    rules = {one.rule for one in explain(later, WANTED).candidates}
    assert rules == {"readiness_stale"}
    shown: list[Plan] = []

    def ask(plan: Plan) -> bool:
        shown.append(plan)
        return False

    with pytest.raises(ProblemError):
        yard.apply_at(later.now(), ask)
    assert [(str(c.ref), c.action) for c in shown[0].changes] == [(WANTED, Action.CREATE)]
    assert WANTED not in {str(ref) for ref in yard.world.recorded}


def test_slots_follow_their_cards_and_not_their_numbers(yard: Yard) -> None:
    """F-PLC-03, INV-01: listed in another order nothing changes; a card that is gone is missed."""
    table = yard.root("gpu02") / "etc/gpuaas-standin/gpus.csv"
    label, head, first, second = table.read_text().splitlines()
    swapped = (f"0, {second.split(', ', 1)[1]}", f"1, {first.split(', ', 1)[1]}")
    table.write_text("\n".join((label, head, *swapped)) + "\n")
    assert yard.plan("--refresh", "--detailed-exitcode").code == 0
    environment = next(yard.root("gpu02").glob("etc/gpuaas/runtime/allocations/*.env"))
    assert card("gpu02", 0) in environment.read_text()

    for gone in (0, 1):
        text = table.read_text().replace(card("gpu02", gone), card("gpu02", gone + 8))
        table.write_text(text)
    yard.write(wanted(on="gpu02"))
    yard.commit()
    refused = yard.plan("--refresh")
    assert refused.blocked == {WANTED: "sku_unavailable"}
    rows = yard.gpuaas("slots").document["result"]
    slots = {one["slot"]: one for one in rows if one["node"] == "gpu02"}
    assert slots["s1"]["state"] == "not_ready"
    assert slots["s1"]["cause"] == f"{card('gpu02', 1)} not seen"
    assert slots["s0"]["state"] == "held"
    status = yard.gpuaas("status").document["result"]
    health = {one["ref"]: one["health"] for one in status["allocations"]}
    assert health["allocation/vision/solo"] == "degraded"
    assert health["allocation/vision/train"] == "healthy"


RACE = """
import json, sys, time
from pathlib import Path
from reconciler.hosts.ansible.receipts import failure
from reconciler.model.problem import ProblemError
from reconciler.operations.apply.wave import work as working
from reconciler.operations.apply.application import ApplyOptions
from reconciler.operations.apply.apply import apply
from reconciler.operations.signals import Interrupts
from reconciler.operations.open import open_fleet

folder, mine, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
fleet = open_fleet(folder)
codes, shown = [], []

# The race is over once the claim is made, so the host itself is spared.
working.run_wave = lambda works, *_: tuple(
    failure(step, "interrupted", "not asked") for work in works for step in work.steps
)

def ask(plan):
    shown.append([p.code for c in plan.changes if (p := c.problem)])
    (folder / mine).touch()
    until = time.monotonic() + 60
    while not (folder / other).exists() and time.monotonic() < until:
        time.sleep(0.001)
    return True

for attempt in range(200):
    try:
        options = ApplyOptions(only=(f"allocation/vision/{mine}",))
        done = apply(fleet, options, ask, lambda progress: None, Interrupts())
    except ProblemError as error:
        codes += [p.code for p in error.problems]
        if codes[-1] == "state_locked":
            time.sleep(0.01)
        continue
    codes += ["claimed" if done.run else c.problem.code for c in done.plan.changes]
    break
print(json.dumps({"codes": codes, "shown": shown}), file=sys.stderr)
"""


def test_two_that_want_one_slot_at_the_same_time(yard: Yard, tmp_path: Path) -> None:
    """F-PLC-01, PLC-06: both were shown the same free slot, one gets it, the other is told."""
    claim = "SELECT ref FROM claim WHERE node = 'gpu02' AND slot = 's1'"
    for number in range(3):
        ground = copy_of(yard, tmp_path / f"round-{number}")
        ground.write(paper.allocation("one"), paper.allocation("two"))
        racers = [
            ground.python(RACE, mine, other) for mine, other in (("one", "two"), ("two", "one"))
        ]
        said = [json.loads(racer.communicate(timeout=120)[1].splitlines()[-1]) for racer in racers]
        assert [one["shown"][0] for one in said] == [[], []], "both saw it free"
        last = sorted(one["codes"][-1] for one in said)
        assert last == ["claimed", "sku_unavailable"], said
        assert len(ground.rows(claim)) == 1
