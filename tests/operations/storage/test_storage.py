"""Storage as people see it: who has what, what is kept, and who was cut off by whose word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.crash import kill
from tests.harness.yard import Yard, copy_of, laid
from tests.operations.node.test_approve import be
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

REF = "allocation/vision/train"
PRICES = [{"from": "2026-01-01T00:00:00Z", "perGiBMonth": "0.10", "currency": "EUR"}]
CLASS = paper.storage_class("local", directory={"path": "/srv/volumes"}, prices=PRICES)
DATA = paper.storage("data", sizeGiB=20, onDelete="keep", protect=False)
VISION = paper.project(
    "vision",
    "ana",
    "bo",
    quota={"gpus": 64, "storageGiB": 100},
    entitlements={
        "skus": ["slice-1", "slice-2", "whole"],
        "storageClasses": ["local"],
    },
)


def having(name: str, **changes: Any) -> dict[str, Any]:
    return paper.allocation(name, node="gpu01", storage=[{"name": "data", "mode": "rw"}], **changes)


TRAIN, NEXT = having("train"), having("next")
BARE = paper.allocation("train", node="gpu01")
WORD = ("storage", "fence", "vision/data", "--from", "vision/train", "--reason", "burnt", "--yes")


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """A storage that one allocation has; not to be changed."""
    folder = tmp_path_factory.mktemp("stored")
    yard = laid(folder, {"gpu01": 2}, CLASS, VISION, DATA, TRAIN)
    done = yard.apply()
    assert done.code == 0, (done.blocked, done.messages)
    return yard


@pytest.fixture
def stored(attached: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    be("olga", monkeypatch)
    return copy_of(attached, tmp_path)


def listed(yard: Yard, *words: str) -> list[Any]:
    rows: list[Any] = yard.gpuaas("storage", "list", *words).document["result"]
    return rows


def test_both_name_each_other(stored: Yard) -> None:
    """STO-08: the storage who has it, the allocation what it has, in every view of them."""
    (row,) = listed(stored)
    assert (row["ref"], row["state"], row["node"]) == ("storage/vision/data", "made", "gpu01")
    assert (row["sizeGiB"], row["pricePerMonth"], row["currency"]) == (20, "2.00", "EUR")
    (holder,) = row["holders"]
    assert (holder["allocation"], holder["mode"], holder["mountPath"], holder["phase"]) == (
        "allocation/vision/train",
        "rw",
        "/data/data",
        "active",
    )
    shown = stored.gpuaas("show", "vision/train").document["result"]
    assert shown["facts"]["storage"] == "data (rw, at /data/data)"
    of_storage = stored.gpuaas("show", "storage/vision/data").document["result"]
    assert (
        of_storage["facts"]["attached"] == "allocation/vision/train (rw, on gpu01, at /data/data)"
    )
    (line,) = stored.gpuaas("status").document["result"]["allocations"]
    assert line["storage"] == ["data rw at /data/data"]
    assert stored.gpuaas("status").document["result"]["storage"] == {"made": 1}
    links = stored.gpuaas("why", "vision/train").document["result"]["links"]
    assert [one["text"] for one in links if one["about"] == "has"] == [
        "storage/vision/data rw at /data/data, 20 GiB on gpu01"
    ]
    links = stored.gpuaas("why", "storage/vision/data").document["result"]["links"]
    assert [one["text"] for one in links if one["about"] == "attached"] == [
        "allocation/vision/train rw at /data/data on gpu01"
    ]


def test_who_had_it_and_what_is_kept_of_it(stored: Yard) -> None:
    """F-STO-03 STO-07 STO-09: by what each attachment ended, whom to ask, and what no state knows.

    Removed in one commit with the allocation's wish for it, it goes one apply after it.
    """
    stored.write(BARE)
    stored.remove(DATA)
    assert stored.apply().blocked == {"storage/vision/data": "storage_in_use"}
    found = stored.gpuaas("storage", "show", "storage/vision/data").document["result"]
    assert (found["row"]["holders"], found["row"]["state"]) == ([], "made")
    (past,) = found["past"]
    assert (past["ended_by"], past["ref"]) == ("detach", REF)
    assert [one["gib"] for one in found["usage"]] == [20]

    volume = found["row"]["volume"]
    record = stored.root("gpu01") / "etc/gpuaas/volumes" / f"{volume}.json"
    record.with_name("strangerid.json").write_text(record.read_text())
    stored.plan("--refresh")
    assert stored.apply().code == 0
    orphans = stored.gpuaas("storage", "orphans").document["result"]
    kept = ("kept", volume, "ana", "gpu01")
    assert [(o["state"], o["volume"], o["owner"], o["node"]) for o in orphans] == [
        kept,
        ("unknown", "strangerid", "", "gpu01"),
    ]
    stored.write(DATA)
    assert stored.apply().code == 0
    assert [row["state"] for row in listed(stored)] == ["made"]


def test_a_name_that_is_none(stored: Yard) -> None:
    unknown = stored.gpuaas("storage", "show", "vision/date")
    assert (unknown.code, unknown.problems) == (1, ["not_found"])
    assert "data" in unknown.messages


class TestForce:
    WORD = ("--force-detach", "vision/train", "--reason", "the next run waits")

    def test_it_is_shown_asked_for_and_kept(self, stored: Yard) -> None:
        """STO-10: nothing that is safe covers it; the run keeps who said so and why."""
        stored.write(BARE)
        made = stored.plan(*self.WORD)
        assert made.plan["forced"] == {"refs": ["vision/train"], "why": "the next run waits"}
        assert made.change(REF)["risk"] == "interrupts"
        assert "are ended" in made.change(REF)["facts"]["detach"]
        held = stored.apply("--auto-approve=safe", *self.WORD)
        assert held.blocked == {REF: "held_for_approval"}
        done = stored.apply("--auto-approve=interrupts", *self.WORD)
        assert done.code == 0, done.messages
        assert listed(stored)[0]["holders"] == []
        events = stored.gpuaas("events", REF).document["result"]
        assert [e["reason"] for e in events if e["type"] == "detach_forced"] == [
            "the next run waits"
        ]

    def test_a_saved_plan_keeps_it(self, stored: Yard) -> None:
        """STO-10: what was shown is what is done."""
        stored.write(BARE)
        file = stored.folder / "plan"
        assert stored.plan(*self.WORD, "--save", str(file)).code == 0
        assert stored.apply(str(file), "--auto-approve=interrupts").code == 0
        assert listed(stored)[0]["holders"] == []

    def test_where_nothing_is_detached_it_is_an_error(self, stored: Yard) -> None:
        """STO-10 F-REAL-21: it would be taken for done."""
        for words in (("plan",), ("apply", "--auto-approve=interrupts")):
            said = stored.gpuaas(*words, *self.WORD)
            assert (said.code, said.problems) == (1, ["force_unmatched"]), said.messages
        assert listed(stored)[0]["holders"]

    @pytest.mark.parametrize(
        "words",
        [
            ("--force-detach", "vision/train"),
            ("--reason", "x"),
            ("--force-detach", "vision/train", "--reason", " "),
        ],
    )
    def test_neither_without_the_other(self, stored: Yard, words: tuple[str, ...]) -> None:
        stored.write(BARE)
        assert stored.plan(*words).problems == ["usage"]
        assert stored.gpuaas("apply", "--auto-approve", *words).problems == ["usage"]

    def test_by_nobody_but_an_operator(self, stored: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        stored.write(BARE)
        be("bo", monkeypatch)
        said = stored.apply("--auto-approve=interrupts", *self.WORD)
        assert said.problems[0] in ("operator_only", "person_unknown")
        assert listed(stored)[0]["holders"]


class TestFence:
    def test_refused_where_the_host_shows_it(self, stored: Yard) -> None:
        """F-STO-04: a word is no way around a detach."""
        said = stored.gpuaas(*WORD)
        assert (said.code, said.problems) == (1, ["fence_refused"])
        assert listed(stored)[0]["holders"]

    def test_one_that_is_gone_is_cut_off(self, stored: Yard) -> None:
        """F-STO-04 F-STO-08: by an operator, with a reason; the next plan attaches it elsewhere."""
        silence(stored)
        said = stored.gpuaas(*WORD)
        assert said.code == 0, said.messages
        assert said.document["result"]["severed"]["holder"]["allocation"] == REF
        assert "gpu01 does not answer since" in said.document["result"]["severed"]["silent"]
        found = stored.gpuaas("storage", "show", "vision/data").document["result"]
        (past,) = found["past"]
        assert (past["ended_by"], past["fenced_why"]) == ("fence", "burnt")
        assert found["fenced"] == [past["allocation_id"]]
        again = stored.gpuaas(*WORD)
        assert (again.code, again.problems) == (1, ["not_found"])
        events = stored.gpuaas("events", "storage/vision/data").document["result"]
        assert [e["reason"] for e in events if e["type"] == "fenced"] == ["burnt"]

    def test_a_word_counts_whole_or_not_at_all(self, stored: Yard) -> None:
        """F-STO-04 F-STA-01: who is cut off is so on the books, and they have it until then."""
        silence(stored)
        kill(stored, WORD, "fence.before")
        assert [one["allocation"] for one in listed(stored)[0]["holders"]] == [REF]
        assert stored.rows("SELECT * FROM fence") == []
        kill(stored, WORD, "fence.after")
        assert listed(stored)[0]["holders"] == []
        assert len(stored.rows("SELECT * FROM fence")) == 1
        assert stored.gpuaas("state", "check").code == 0

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (("vision/date", "--from", "vision/train", "--reason", "x"), "not_found"),
            (("vision/data", "--from", "vision/next", "--reason", "x"), "not_found"),
            (("vision/data", "--from", "vision/train", "--reason", " "), "usage"),
        ],
    )
    def test_what_is_no_word(self, stored: Yard, words: tuple[str, ...], code: str) -> None:
        said = stored.gpuaas("storage", "fence", *words, "--yes")
        assert said.problems == [code], said.messages

    def test_only_an_operator_can(self, stored: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        be("bo", monkeypatch)
        said = stored.gpuaas(*WORD)
        assert said.problems[0] in ("operator_only", "person_unknown")


def silence(yard: Yard) -> None:
    """Its host is found to be out of reach."""
    root = yard.root("gpu01")
    root.rename(root.with_name("gone"))
    yard.plan("--refresh")
    yard.apply()
