"""Metrics of a fleet at work: what they say, that Prometheus takes them, that each is explained."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.model.problem import ProblemError
from reconciler.model.settings import LoopSettings, MetricsSettings
from reconciler.operations.fleet import Fleet, utc_now
from reconciler.operations.liveness.health import LoopCondition, health_of
from reconciler.operations.liveness.presence import Presence, read_presence
from reconciler.operations.monitoring.exposition import Exposition
from reconciler.operations.monitoring.metrics import FAMILIES, PREFIX
from reconciler.operations.notifications.news import News
from reconciler.operations.reconcile import loop as module
from reconciler.operations.reconcile.loop import LoopOptions, reconcile, reconcile_once
from reconciler.operations.reconcile.service.signals import LoopSignals
from reconciler.store.backup.replica_sync import last_sync
from tests.harness.replica_process import PATIENCE, replicating, until
from tests.harness.yard import ROOT, Yard
from tests.operations.reconcile.rounds import Rounds
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

PROMTOOL = shutil.which("promtool")
ROOM = paper.allocation("room", "slice-2", node="gpu02", expiresAt=paper.LASTING)

Shown = dict[str, dict[tuple[tuple[str, str], ...], float]]


class Meter:
    """Rounds of a fleet, each shown as the loop shows them."""

    def __init__(self, yard: Yard) -> None:
        self.rounds = Rounds(yard, utc_now())
        self.exposition = Exposition(clock=lambda: self.rounds.seconds)

    def __call__(self, after: float = 60.0) -> Shown:
        self.exposition.tally.count(self.rounds(after))
        return self.read()

    def read(self) -> Shown:
        fleet = self.rounds.fleet
        metrics = MetricsSettings(textfile=str(fleet.folder / "gpuaas.prom"))
        settings = replace(fleet.settings, loop=LoopSettings(metrics=metrics))
        at = f"{self.rounds.now:%Y-%m-%dT%H:%M:%SZ}"
        said = Presence(pid=1, actor="olga", since=at, said_at=at, interval_seconds=60, next_at=at)
        here = replace(fleet, settings=settings)
        self.exposition.show(here, said, self.rounds.memory, 60.0)
        return parsed(self.exposition.shown)


def parsed(text: bytes) -> Shown:
    found: Shown = {}
    for family in text_string_to_metric_families(text.decode()):
        for one in family.samples:
            found.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    return found


@pytest.fixture
def meter(yard: Yard) -> Meter:
    return Meter(yard)


def number(shown: Shown, name: str, **labels: str) -> float | None:
    return shown.get(f"{PREFIX}{name}", {}).get(tuple(sorted(labels.items())))


def test_what_is_there_is_counted(meter: Meter) -> None:
    shown = meter()
    assert number(shown, "slots", state="held") == 5
    assert number(shown, "slots", state="free") == 1
    assert sum(shown["gpuaas_nodes"].values()) == 3
    assert number(shown, "allocations", sync="in_sync", health="healthy") == 3
    assert number(shown, "project_slots", project="vision") == 3
    assert number(shown, "revocations_pending") == 0
    assert number(shown, "revocations_pending_since_timestamp_seconds") is None
    assert number(shown, "findings", code="lease_over", sort="overdue") == 0
    assert {dict(k)["node"] for k in shown["gpuaas_node_last_answer_timestamp_seconds"]} == {
        "gpu01",
        "gpu02",
        "gpu03",
    }


def test_what_is_done_held_and_fails_is_counted(meter: Meter) -> None:
    meter()
    yard = meter.rounds.yard
    desk = paper.allocation("desk", node="gpu02", expiresAt=paper.LASTING)
    yard.write(desk, ROOM)
    yard.commit()
    shown = meter()
    assert number(shown, "loop_changes_total", action="create") == 1
    assert number(shown, "changes", state="waiting", code="sku_unavailable") == 1
    assert number(shown, "changes", state="changes", code="") is None
    assert number(shown, "findings", code="sku_unavailable", sort="stuck") == 1
    assert number(shown, "allocations", sync="waiting", health="-") == 1
    with yard.away("gpu01"):
        for _ in range(8):
            shown = meter()
            if number(shown, "loop_backoff", sort="node"):
                break
        assert number(shown, "loop_backoff", sort="node") == 1
        failures = shown["gpuaas_loop_failures_total"]
        assert sum(failures.values()) >= 1


def test_what_does_not_change_is_not_counted_again(meter: Meter) -> None:
    meter.rounds.now += timedelta(hours=4)
    for _ in range(3):
        meter()
    known = meter.exposition.ledger.known
    meter.read()
    assert meter.exposition.ledger.known is known
    meter.rounds.now += timedelta(minutes=6)
    meter.read()
    assert meter.exposition.ledger.known is not known


def test_a_rounds_result_is_told(meter: Meter) -> None:
    shown = meter()
    assert number(shown, "loop_rounds_total", result="worked") == 1
    assert number(shown, "loop_refusals") == 0
    meter.exposition.tally.refused()
    meter.exposition.tally.refused()
    shown = meter.read()
    assert number(shown, "loop_rounds_total", result="refused") == 2
    assert number(shown, "loop_refusals") == 2


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here")
def test_promtool_has_nothing_against_them(meter: Meter) -> None:
    meter()
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=meter.exposition.shown,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_every_metric_is_explained_in_its_order() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(gpuaas_[a-z_]+)` \| ([a-z, ]*) \|", page, re.MULTILINE)
    assert told == [(f"{PREFIX}{one.name}", ", ".join(one.labels)) for one in FAMILIES]


def listening(yard: Yard, **more: str) -> LoopOptions:
    """One second between rounds is less than settings may say."""
    metrics = MetricsSettings(textfile=str(yard.folder / "gpuaas.prom"), **more)

    def open_here() -> Fleet:
        return yard.fleet()

    return LoopOptions(
        open=open_here, loop=lambda known: replace(known, interval_seconds=30, metrics=metrics)
    )


def test_a_loop_shows_itself_and_its_end(yard: Yard) -> None:
    options = listening(yard, listen="127.0.0.1:0")
    signals, told = LoopSignals(), list[News]()
    asleep = threading.Event()

    def say(news: News) -> None:
        told.append(news)
        if news.event == "commit":
            asleep.set()

    thread = threading.Thread(target=reconcile, args=(options, signals, say))
    thread.start()
    try:
        assert asleep.wait(60)
        for _ in range(100):
            shown = parsed((yard.folder / "gpuaas.prom").read_bytes())
            if number(shown, "loop_rounds_total", result="worked"):
                break
            threading.Event().wait(0.1)
        assert number(shown, "loop_rounds_total", result="worked") == 1
        said = read_presence(yard.fleet())
        assert health_of(yard.fleet(), said, utc_now()).condition is LoopCondition.WELL
        due = number(shown, "loop_due_timestamp_seconds")
        assert due is not None and 0 < due - utc_now().timestamp() <= 31
    finally:
        signals._note(15, None)
        thread.join(60)
    said = read_presence(yard.fleet())
    assert health_of(yard.fleet(), said, utc_now()).condition is LoopCondition.ENDED
    assert told[-1].event == "ended"


def test_a_loop_that_dies_is_found_dead(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and not that anybody wished it."""

    def die(*words: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(module, "tick", die)
    told: list[News] = []
    with pytest.raises(RuntimeError):
        reconcile(listening(yard), LoopSignals(), told.append)
    said = read_presence(yard.fleet())
    assert health_of(yard.fleet(), said, utc_now()).condition is LoopCondition.GONE
    assert (told[-1].event, told[-1].level.value) == ("ended", "error")


def test_whether_somebody_copies_the_state(meter: Meter) -> None:
    assert "gpuaas_replica_running" not in meter()
    settings = meter.rounds.yard.folder / "gpuaas.yaml"
    settings.write_text(settings.read_text() + "replica: {url: /srv/replica}\n")
    meter.exposition.ledger.known = None
    assert number(meter.read(), "replica_running") == 0


def test_how_far_the_copy_of_the_state_has_come(meter: Meter, tmp_path: Path) -> None:
    """Absent where nobody says so: unknown is no zero."""
    yard, copy = meter.rounds.yard, tmp_path / "elsewhere"
    settings = yard.folder / "gpuaas.yaml"
    settings.write_text(settings.read_text() + f"replica: {{url: '{copy}'}}\n")
    assert "gpuaas_replica_synced_timestamp_seconds" not in meter()
    with replicating(yard.folder, copy):
        until(lambda: last_sync(yard.fleet().database_file))
        said = number(meter.read(), "replica_synced_timestamp_seconds")
        assert said is not None and abs(utc_now().timestamp() - said) < PATIENCE
    assert "gpuaas_replica_synced_timestamp_seconds" not in meter.read()


def test_one_round_is_shown_in_the_file(yard: Yard) -> None:
    reconcile_once(listening(yard), LoopSignals())
    shown = parsed((yard.folder / "gpuaas.prom").read_bytes())
    assert number(shown, "loop_rounds_total", result="worked") == 1
    assert number(shown, "slots", state="held") == 5


def test_a_round_that_could_not_be_is_shown_too(yard: Yard) -> None:
    options = listening(yard)
    shutil.rmtree(yard.folder / ".git")
    with pytest.raises(ProblemError, match="lies in no repository"):
        reconcile_once(options, LoopSignals())
    shown = parsed((yard.folder / "gpuaas.prom").read_bytes())
    assert number(shown, "loop_refusals") == 1
    assert number(shown, "slots", state="held") == 5
