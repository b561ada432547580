"""Ages of conditions: since when an allocation stands so, told alike wherever it is told."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.condition import Condition, Health, Sync
from reconciler.model.moment import format_moment
from reconciler.model.ref import Ref
from reconciler.operations.fleet import Fleet, utc_now
from reconciler.operations.inventory.ages import aged, as_last_planned, as_last_seen
from reconciler.operations.inventory.sync import make_standing
from reconciler.operations.liveness.presence import Presence, alone, tell
from reconciler.operations.plan.plan import make_plan
from reconciler.operations.status.status import status
from reconciler.operations.views import AllocationRow
from reconciler.store.cache import SqliteCache
from tests.harness.yard import Yard, copy_of, laid
from tests.planner import fleet as paper

TRAIN = paper.allocation("train", node="gpu01", access=["bo"], expiresAt=paper.LASTING)
SOLO = paper.allocation("solo", node="gpu02", expiresAt=paper.LASTING)
ROOM = paper.allocation("room", "slice-2", node="gpu01", expiresAt=paper.LASTING)
REF = "allocation/vision/train"


@pytest.fixture(scope="session")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Not to be changed."""
    yard = laid(tmp_path_factory.mktemp("ages"), {"gpu01": 2, "gpu02": 2}, TRAIN, SOLO)
    settings = {"operators": ["olga"], "publish": {"dir": "published"}}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
    yard.commit()
    assert yard.apply().code == 0
    return yard


@pytest.fixture
def yard(settled: Yard, tmp_path: Path) -> Yard:
    return copy_of(settled, tmp_path)


def row(fleet: Fleet, **changes: Any) -> AllocationRow:
    plain = AllocationRow(
        ref=REF, owner="ana", sku="slice-1", node="gpu01", slots=("s0",), phase="active",
        health="healthy", login="x", sync="in_sync",
    )  # fmt: skip
    (found,) = aged(fleet, [replace(plain, **changes)])
    return found


def later(fleet: Fleet, minutes: int) -> Fleet:
    at = fleet.now() + timedelta(minutes=minutes)
    return replace(fleet, now=lambda: at)


def ages(found: AllocationRow, fleet: Fleet) -> tuple[str, str]:
    """Whether each was first seen in this look of `fleet`."""
    now = format_moment(fleet.now())
    shown = (found.sync_since, found.health_since)
    return ("new" if shown[0] == now else shown[0], "new" if shown[1] == now else shown[1])


def test_it_is_as_old_as_its_first_sight(yard: Yard) -> None:
    """REC-07: each axis for itself, a word with another cause is another condition."""
    fleet = yard.fleet(utc_now())
    first = row(fleet, sync="held", sync_cause="protected")
    assert ages(first, fleet) == ("new", "new")
    since = format_moment(fleet.now())
    second = later(fleet, 5)
    assert ages(row(second, sync="held", sync_cause="protected"), second) == (since, since)
    third = later(fleet, 9)
    found = row(third, sync="held", sync_cause="held_by_policy", health="degraded")
    assert ages(found, third) == ("new", "new")
    again = later(fleet, 12)
    assert ages(row(again, sync="held", sync_cause="held_by_policy"), again) == (
        format_moment(third.now()),
        "new",
    )


def test_nothing_is_older_than_what_it_is_said_of(yard: Yard) -> None:
    """Whoever comes back under a name of before begins anew."""
    fleet = yard.fleet(utc_now())
    row(fleet)
    anew = later(fleet, 30)
    begun = format_moment(later(fleet, 20).now())
    assert row(anew, since=begun).health_since == begun


def test_who_comes_back_and_is_not_let_begins_anew(yard: Yard) -> None:
    """What waits has no claim to be told by: it is as old as its document is there again."""
    fleet = yard.fleet(utc_now())
    yard.write(ROOM)
    yard.commit()
    assert since_of("room", fleet) == format_moment(fleet.now())
    yard.remove(ROOM)
    assert since_of("room", later(fleet, 60)) == ""
    yard.write(ROOM)
    yard.commit()
    anew = later(fleet, 120)
    assert since_of("room", anew) == format_moment(anew.now())


def since_of(name: str, fleet: Fleet) -> str:
    found = status(fleet, standing=make_standing(fleet, make_plan))
    return next((r.sync_since for r in found.allocations if r.ref.endswith(f"/{name}")), "")


def test_what_a_clock_told_that_was_ahead_is_of_now(yard: Yard) -> None:
    fleet, ill = yard.fleet(utc_now()), Condition(word=Health.DEGRADED, cause="differs")
    words = {"health": "degraded", "health_cause": "differs", "sync": "held"}
    ahead = row(later(fleet, 600), **words)
    assert ahead.health_since > format_moment(fleet.now())
    ref = Ref("allocation", "vision", "train")
    now = format_moment(fleet.now())
    assert [one.since for one in as_last_seen(fleet, ref, ill)] == [now, now]
    assert [one.sync_since for one in as_last_planned(fleet, [ahead])] == [now]
    assert ages(row(fleet, **words), fleet) == ("new", "new")
    again = later(fleet, 5)
    assert ages(row(again, **words), again) == (now, now)


def test_what_is_known_exactly_is_told_so(yard: Yard) -> None:
    fleet, ref = yard.fleet(utc_now()), Ref("allocation", "vision", "train")
    waits = replace(row(fleet), sync=Sync.WAITING, sync_cause="sku_unavailable", sync_since="")
    (found,) = aged(fleet, [waits], {ref: "2026-11-01T00:00:00Z"})
    assert found.sync_since == "2026-11-01T00:00:00Z"
    silent = row(
        fleet, health="unknown", health_cause="unseen", health_since="2026-11-02T00:00:00Z"
    )
    assert silent.health_since == "2026-11-02T00:00:00Z"


def test_without_a_plan_that_axis_is_neither_told_nor_forgotten(yard: Yard) -> None:
    fleet = yard.fleet(utc_now())
    row(fleet, sync="held", sync_cause="protected")
    later_on = later(fleet, 5)
    blind = row(later_on, sync="", sync_cause="")
    assert (blind.sync, blind.sync_since) == ("", "")
    (found,) = as_last_planned(later_on, [blind])
    assert (found.sync, found.sync_cause) == (Sync.HELD, "protected")
    assert found.sync_since == format_moment(fleet.now())


def test_whoever_loses_the_cache_counts_anew(yard: Yard) -> None:
    fleet = yard.fleet(utc_now())
    row(fleet)
    for path in fleet.state.glob("cache*"):
        path.write_bytes(b"no database")
    anew = later(fleet, 5)
    assert ages(row(anew), anew) == ("new", "new")


def test_what_another_program_left_there_is_nothing(yard: Yard) -> None:
    fleet = yard.fleet(utc_now())
    with fleet.cache() as cache:
        cache.put_many("conditions", {REF: '[["held"], 3]'})
    assert ages(row(fleet), fleet) == ("new", "new")


def test_in_words() -> None:
    now = utc_now()
    since = format_moment(now - timedelta(hours=3))
    missing = Condition(word=Health.DEGRADED, cause="card_missing", since=since)
    assert missing.told(now) == "degraded for 3 h: its host does not list one of its GPUs"
    assert Condition(word=Health.HEALTHY).told(now) == "healthy"


def test_the_same_words_everywhere(yard: Yard) -> None:
    """REC-07, rule 5: on the page, in JSON, in what is published and in what explains one."""
    yard.write({**TRAIN, "spec": {**TRAIN["spec"], "access": ["ana"]}}, ROOM)
    yard.commit()
    done = yard.apply("--only", "allocation/vision/solo")
    assert done.code == 0, done.messages
    shown = {one["ref"]: one for one in yard.gpuaas("status").document["result"]["allocations"]}
    assert shown[REF]["sync"] == "changes"
    assert shown["allocation/vision/room"]["sync"] == "waiting"
    assert shown["allocation/vision/room"]["syncCause"] == "sku_unavailable"
    assert shown["allocation/vision/room"]["health"] == "-"
    assert yard.gpuaas("show", REF).document["result"]["facts"]["sync"].startswith("changes")
    assert yard.apply().code == 3, "one waits for room"
    published = published_rows(yard)
    assert published[REF]["sync"] == "in_sync"
    told_now = yard.gpuaas("status").document["result"]["allocations"]
    for one in told_now:
        theirs = published[one["ref"]]
        for word in ("sync", "syncCause", "syncSince", "health", "healthCause", "healthSince"):
            assert theirs[word] == one[word], (one["ref"], word)
    text = (yard.folder / "published/vision/status.md").read_text()
    assert "`waiting: sku_unavailable`" in text


def test_a_part_says_nothing_of_the_rest(yard: Yard) -> None:
    yard.write(
        {**TRAIN, "spec": {**TRAIN["spec"], "access": ["ana"]}},
    )
    yard.write({**SOLO, "spec": {**SOLO["spec"], "access": ["ana"]}})
    yard.commit()
    yard.gpuaas("status")
    assert yard.apply("--only", "allocation/vision/solo").code == 0
    published = published_rows(yard)
    assert published["allocation/vision/solo"]["sync"] == "in_sync"
    assert published[REF]["sync"] == "changes", "as the last plan of the whole fleet said"


def published_rows(yard: Yard) -> dict[str, dict[str, str]]:
    text = (yard.folder / "published/vision/status.json").read_text()
    return {one["ref"]: one for one in json.loads(text)["allocations"]}


def test_a_look_writes_only_what_has_turned(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = yard.fleet(utc_now())
    row(fleet)
    written: list[object] = []
    monkeypatch.setattr(SqliteCache, "put_many", lambda self, space, rows: written.append(rows))
    row(later(fleet, 3))
    assert written == [{}]


def test_of_one_ref_both_are_told(yard: Yard) -> None:
    fleet = yard.fleet(utc_now())
    row(fleet, sync="drifted", sync_cause="repair", health="degraded", health_cause="differs")
    ref = Ref("allocation", "vision", "train")
    sync, health = as_last_seen(fleet, ref, Condition(word=Health.DEGRADED, cause="differs"))
    assert (sync.word, health.since) == (Sync.DRIFTED, format_moment(fleet.now()))
    _, other = as_last_seen(fleet, ref, Condition(word=Health.HEALTHY))
    assert other.since == ""
    anew, begun = later(fleet, 5), format_moment(later(fleet, 3).now())
    ill = Condition(word=Health.DEGRADED, cause="differs")
    assert [one.since for one in as_last_seen(anew, ref, ill, begun)] == [begun, begun]


def test_where_a_loop_lives_a_plan_is_the_loops(yard: Yard) -> None:
    """REC-07: what does not go alone waits for somebody; where nobody is at work it is done."""
    yard.remove(TRAIN)
    (before,) = words_of(yard)
    assert before == ("changes", "release")
    fleet = yard.fleet()
    with alone(fleet):
        tell(
            fleet,
            Presence(
                pid=7,
                actor="olga",
                since="",
                said_at=format_moment(fleet.now()),
                interval_seconds=60,
                commit="c0ffee",
                next_at="",
                phase="plan",
            ),
        )
        assert words_of(yard) == [("held", "held_by_policy")]
        found = yard.gpuaas("status").document["result"]["loop"]
        assert (found["condition"], found["phase"], found["commit"]) == ("well", "plan", "c0ffee")
    found = yard.gpuaas("status").document["result"]["loop"]
    assert found["condition"] == "gone" and "no loop is running" in found["why"]
    assert words_of(yard) == [before]


def words_of(yard: Yard) -> list[tuple[str, str]]:
    rows = yard.gpuaas("status").document["result"]["allocations"]
    return [(one["sync"], one["syncCause"]) for one in rows if one["ref"] == REF]
