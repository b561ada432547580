"""Blocked cleanups on real folders: tried again, vouched for, and told to whoever comes next."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness.applied_fleet import TRAIN
from tests.harness.crash import kill
from tests.harness.yard import Yard, card
from tests.journeys.plans.test_release import REF
from tests.operations.node.test_approve import be
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

NEXT, NEXT_REF = paper.allocation("next", "slice-2", node="gpu01"), "allocation/vision/next"
REASON = "the job was killed by hand"
WORD = ("cleanup", "override", "gpu01/s1", "--reason", REASON, "--yes")
RETRY = ("cleanup", "retry", "gpu01/s1")


@pytest.fixture(autouse=True)
def olga(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator who sits here."""
    be("olga", monkeypatch)


@pytest.fixture
def stuck(yard: Yard) -> Yard:
    """A release of two slots, on the card of one of which somebody still computes."""
    yard.remove(TRAIN)
    apps = yard.root("gpu01") / "etc/gpuaas-standin/apps.csv"
    apps.write_text(f"{apps.read_text()}{card('gpu01', 1)}, 4711, python train.py\n")
    done = yard.apply()
    assert done.code == 1 and "cleanup_blocked" in done.problems
    assert yard.claims[f"{REF}@gpu01/s1"] == "cleanup_blocked"
    assert f"{REF}@gpu01/s0" not in yard.claims
    return yard


def quiet(yard: Yard) -> None:
    """The cause is removed on the host."""
    apps = yard.root("gpu01") / "etc/gpuaas-standin/apps.csv"
    lines = [line for line in apps.read_text().splitlines(True) if "4711" not in line]
    apps.write_text("".join(lines))


def next_second() -> None:
    """What was measured within one second, with the same values, is one try and no other."""
    time.sleep(1 - time.time() % 1)


def slot(yard: Yard, name: str) -> Any:
    rows = yard.gpuaas("slot", "list").document["result"]
    return next(one for one in rows if (one["node"], one["slot"]) == ("gpu01", name))


def chain(yard: Yard, place: str = "gpu01/s1") -> Any:
    return yard.gpuaas("proof", "show", place).document["result"]["tenancies"]


def test_a_retry_frees_the_slot_once_its_proof_passes(stuck: Yard) -> None:
    """REL-02 REL-04: as often as it takes, for this place alone, and with every measured value."""
    next_second()
    again = stuck.gpuaas(*RETRY)
    assert (again.code, again.problems) == (1, ["cleanup_blocked"])
    (left,) = again.document["result"]["left"]
    assert left["place"] == "gpu01/s1"
    assert [(c["name"], c["result"], c["value"]) for c in left["checks"]] == [
        ("processes on s1", "fail", "4711")
    ]
    assert slot(stuck, "s1")["state"] == "cleanup_blocked"
    quiet(stuck)
    stuck.write(NEXT)
    done = stuck.gpuaas("cleanup", "retry", "node/gpu01")
    assert (done.code, done.document["result"]["freed"]) == (0, ["gpu01/s1"])
    assert not [claim for claim in stuck.claims if claim.startswith(REF)]
    assert stuck.recorded(NEXT_REF) is None, "a cleanup places nobody"

    (one,) = chain(stuck)
    assert [tried["passed"] for tried in one["tried"]] == [False, False, True]
    assert one["freedBy"] == one["tried"][-1]["proof"] and not one["actor"]
    values = {check["name"]: check["value"] for check in one["tried"][0]["checks"]}
    assert values["processes on s1"] == "4711"
    assert values["home"] == "deleted, not erased"
    none = stuck.gpuaas(*RETRY)
    assert (none.code, none.problems) == (1, ["nothing_blocked"])


def test_a_word_frees_it_and_everybody_later_is_told(
    stuck: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REL-03 REL-04: audited, on the slot, in its chain and with whoever comes next."""
    assert stuck.gpuaas(*WORD[:4], " ", "--yes").problems == ["usage"]
    assert stuck.gpuaas(*WORD[:-1]).problems == ["nobody_to_ask"]
    be("ana", monkeypatch)
    assert stuck.gpuaas(*WORD).problems == ["operator_only"]
    be("olga", monkeypatch)
    assert stuck.claims[f"{REF}@gpu01/s1"] == "cleanup_blocked"
    done = stuck.gpuaas(*WORD)
    assert (done.code, done.document["result"]["actor"]) == (0, "olga")
    (freed,) = done.document["result"]["freed"]
    assert freed["place"] == "gpu01/s1"
    assert [check["name"] for check in freed["checks"]] == ["processes on s1"], "what nobody proved"
    assert stuck.recorded(REF) is None
    ((actor, reason),) = stuck.rows("SELECT actor, reason FROM event WHERE type = 'overridden'")
    assert actor.startswith("olga (") and reason == REASON
    (one,) = chain(stuck)
    assert (one["actor"], one["reason"], one["freedBy"]) == (actor, REASON, "")
    assert stuck.gpuaas("state", "check").code == 0

    quiet(stuck)
    stuck.write(NEXT)
    stuck.commit()
    planned = stuck.plan("--refresh").change(NEXT_REF)
    assert REASON in planned["facts"]["unproved"]
    assert stuck.apply("--only", NEXT_REF).code == 0
    assert REASON in slot(stuck, "s1")["vouched"] and not slot(stuck, "s0")["vouched"]
    shown = stuck.gpuaas("node", "show", "gpu01").document["result"]["slots"]
    assert [REASON in one["vouched"] for one in shown] == [False, True]
    candidates = stuck.gpuaas("explain", NEXT_REF).document["result"]["candidates"]
    assert [REASON in one["detail"] for one in candidates if one["node"] == "gpu01"] == [True]
    links = stuck.gpuaas("why", NEXT_REF).document["result"]["links"]
    assert [REASON in one["text"] for one in links if one["about"] == "vouched"] == [True]
    assert [(one["ref"], one["state"]) for one in chain(stuck)] == [
        (REF, "freed"),
        (NEXT_REF, "held"),
    ]


def test_a_word_counts_whole_or_not_at_all(stuck: Yard, tmp_path: Path) -> None:
    """REL-03 F-STA-01 F-STA-11: never half said; and where nobody knows of it, nothing is free."""
    place = f"{REF}@gpu01/s1"
    kill(stuck, WORD, "override.before")
    assert stuck.claims[place] == "cleanup_blocked"
    assert stuck.rows("SELECT * FROM override") == []
    copy = str(tmp_path / "before-the-word.db")
    assert stuck.gpuaas("state", "backup", copy).code == 0
    kill(stuck, WORD, "override.after")
    assert place not in stuck.claims
    assert len(stuck.rows("SELECT * FROM override")) == 1
    assert stuck.gpuaas(*WORD).problems == ["nothing_blocked"]
    assert stuck.gpuaas("state", "check").code == 0

    assert stuck.gpuaas("state", "restore", copy).code == 0
    assert stuck.claims[place] == "cleanup_blocked", "an older state waits for a proof again"
    assert stuck.gpuaas(*RETRY).problems == ["cleanup_blocked"]
    assert stuck.claims[place] == "cleanup_blocked"
    assert stuck.gpuaas("state", "check").code == 0


def test_what_is_no_place_or_needs_no_cleanup_is_said_to_be_so(yard: Yard) -> None:
    for words in (("proof", "show"), ("cleanup", "retry")):
        said = yard.gpuaas(*words, "gpu01/s7")
        assert (said.code, said.problems) == (1, ["not_found"])
    held = yard.gpuaas("cleanup", "override", "gpu01", "--reason", "x", "--yes")
    assert held.problems == ["nothing_blocked"] and "held" in held.messages
    (one,) = chain(yard, "gpu01/s0")
    assert (one["ref"], one["state"], one["tried"]) == (REF, "held", [])
    assert one["login"].startswith("train-")
