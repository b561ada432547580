"""One loop a state, and what is released while a host is away stays so until that is proved."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.operations.apply import turns, walk
from reconciler.operations.fleet import Fleet, utc_now
from reconciler.store.file.lock import LOOP
from reconciler.store.journal import Journal
from tests.harness.yard import ROOT, Yard
from tests.operations.reconcile.rounds import Rounds
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

ALONE = paper.policy(
    guard={"maxRemovals": 100, "maxRemovalPercent": 100},
    grant={"mayBeOpenEnded": True},
    automation={"allow": "destroys"},
)
TRAIN = paper.allocation("train", "slice-2", node="gpu01", expiresAt=paper.LASTING)
MOVED = paper.allocation("train", "slice-1", node="gpu02", expiresAt=paper.LASTING)
GPUAAS = str(Path(sys.executable).with_name("gpuaas"))


@pytest.fixture
def rounds(yard: Yard) -> Rounds:
    """A loop that may do everything alone."""
    yard.write(ALONE)
    yard.commit()
    found = Rounds(yard, utc_now())
    found()
    return found


@contextmanager
def loop(yard: Yard, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [GPUAAS, "-C", str(yard.folder), "reconcile", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + 30
            while said(yard).get("pid") != process.pid or not said(yard).get("nextAt"):
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.05)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def said(yard: Yard) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads((yard.folder / "state/loop.json").read_text())
    except (OSError, ValueError):
        return {}
    return told


def test_a_second_loop_refuses_and_names_the_first(yard: Yard) -> None:
    """F-REC-08, CRD-04: a daemon, and a single round; the first one goes on."""
    with loop(yard, "--interval", "300s") as first:
        for words in (("--once",), ("--interval", "5s")):
            second = subprocess.run(
                [GPUAAS, "-C", str(yard.folder), "reconcile", *words],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert second.returncode == 1
            assert "loop_running" in second.stderr
            assert str(first.pid) in second.stderr
        rounds = said(yard)["rounds"]
        assert yard.gpuaas("reconcile", "--wake").document["result"] == {"pid": first.pid}
        until = time.monotonic() + 20
        while said(yard)["rounds"] == rounds:
            assert time.monotonic() < until
            time.sleep(0.05)
    assert yard.gpuaas("reconcile", "--once").code == 0


def test_wakes_are_merged_and_make_no_hot_loop(yard: Yard) -> None:
    """F-REC-08, F-REC-10: a hundred signals within a second are a round or two."""
    with loop(yard, "--interval", "300s") as process:
        before = said(yard)["rounds"]
        for _ in range(100):
            os.kill(process.pid, signal.SIGUSR1)
            time.sleep(0.01)
        time.sleep(2.5)
        assert 1 <= said(yard)["rounds"] - before <= 4


def test_an_apply_beside_a_loop_takes_its_turn(yard: Yard) -> None:
    """F-REC-08: never two at a time on one object, and neither is starved."""
    with loop(yard, "--interval", "5s", "--watch"):
        for number in range(3):
            yard.write(paper.user("eve", emails=[f"eve{number}@corp.example"]))
            yard.commit()
            done = yard.apply("--lock-timeout", "60s")
            assert done.code == 0, done.document["problems"]
    (runs,) = yard.rows("SELECT count(*) FROM run WHERE state = 'running'")[0]
    assert runs == 0


def test_the_loop_wakes_nobody_by_its_own_writes(yard: Yard) -> None:
    """With state, logs and what is published inside of the watched repository."""
    (yard.folder / "gpuaas.yaml").write_text("operators: [olga]\npublish: {dir: published}\n")
    with loop(yard, "--interval", "300s", "--watch"):
        time.sleep(1)
        before = said(yard)["rounds"]
        yard.gpuaas("plan", "--refresh")
        (yard.folder / "state/notes.log").write_text("a log")
        time.sleep(6)
        assert said(yard)["rounds"] == before


def test_a_release_waits_for_a_host_that_is_away(rounds: Rounds) -> None:
    """F-REC-04: releasing, tried again with its pace for ever, and free by a proof alone."""
    yard = rounds.yard
    yard.remove(TRAIN)
    with yard.away("gpu01"):
        for _ in range(6):
            rounds(120)
        states = {state for ref, state in yard.claims.items() if "train@gpu01" in ref}
        assert states and "freed" not in states
        yard.write(paper.allocation("next", "slice-2", node="gpu01", expiresAt=paper.LASTING))
        yard.commit()
        rounds(120)
        assert yard.recorded("allocation/vision/next") is None, "nobody gets what is not proved"
    for _ in range(10):
        rounds(300)
    assert yard.recorded("allocation/vision/train") is None
    (proofs,) = yard.rows("SELECT count(*) FROM proof WHERE passed AND node = 'gpu01'")[0]
    assert proofs >= 2
    assert yard.recorded("allocation/vision/next") is not None


def test_a_host_that_is_gone_for_good_has_a_way_out_and_holds_up_nobody(rounds: Rounds) -> None:
    """F-REC-05: an attestation with its reason; the slots do not become free by it."""
    yard = rounds.yard
    yard.remove(TRAIN)
    with yard.away("gpu01"):
        for _ in range(4):
            rounds(120)
        yard.write(paper.allocation("desk", node="gpu02", expiresAt=paper.LASTING))
        yard.commit()
        found = rounds(120)
        assert [str(change.ref) for change in found.done] == ["allocation/vision/desk"]
        assert any("train@gpu01" in ref for ref in yard.claims)


def test_two_files_that_want_one_thing_are_named_and_neither_takes_it(rounds: Rounds) -> None:
    """F-REC-06: frozen as it was; with one of them gone the other has it."""
    yard = rounds.yard
    twin = yard.specs / "twin.yaml"
    twin.write_text(yard.file(TRAIN).read_text())
    yard.commit()
    found = rounds()
    assert not found.done
    assert found.plan is not None
    told = [p.message for p in found.plan.problems if p.code == "duplicate_resource"]
    assert told and all("twin.yaml" in text or "train.yaml" in text for text in told)
    assert yard.recorded("allocation/vision/train").phase == "active"
    twin.unlink()
    yard.commit()
    rounds()
    assert yard.recorded("allocation/vision/train").phase == "active"


def test_a_round_that_gave_way_goes_on_under_its_own_name(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever meets the loop at the lock is told so, and waits for a round of it."""
    rounds.yard.write(MOVED)
    rounds.yard.commit()
    names: list[str] = []
    real = turns.writing

    def noting(fleet: Fleet, command: str) -> AbstractContextManager[Journal]:
        names.append(command)
        return real(fleet, command)

    wanted = iter([True])
    monkeypatch.setattr(walk, "is_waited_for", lambda lock: next(wanted, False))
    monkeypatch.setattr(turns, "COURTESY", 0.0)
    monkeypatch.setattr(turns, "writing", noting)
    found = rounds()
    assert [str(change.ref) for change in found.done] == ["allocation/vision/train"], found.held
    assert names == [LOOP]


FIELDS = {"at", "level", "event", "about", "message"}


def objects(text: str) -> list[dict[str, str]]:
    """Each line is one, flat and of texts."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        assert one.keys() >= FIELDS
        assert all(isinstance(value, str) for value in one.values())
    return found


def test_whoever_reads_objects_gets_nothing_else(yard: Yard) -> None:
    """A round, one that has something to hold, and a loop that cannot begin."""

    def once() -> subprocess.CompletedProcess[str]:
        words = ["-C", str(yard.folder), "reconcile", "--once", "--log-format", "json"]
        return subprocess.run([GPUAAS, *words], capture_output=True, text=True, check=False)

    first = once()
    assert (first.returncode, first.stdout) == (0, "")
    assert [one["event"] for one in objects(first.stderr)] == ["commit"]
    yard.remove(TRAIN)
    held = once()
    assert (held.returncode, held.stdout) == (5, "")
    (told,) = (one for one in objects(held.stderr) if one["event"] == "held")
    assert (told["about"], told["code"]) == ("allocation/vision/train", "held_by_policy")
    (yard.folder / ".git").rename(yard.folder / ".away")
    refused = once()
    assert (refused.returncode, refused.stdout) == (1, "")
    (told,) = objects(refused.stderr)
    assert (told["event"], told["code"], told["level"]) == ("refused", "no_commit", "error")
    assert told["hint"]


def test_what_the_page_says_of_lines_is_what_there_is() -> None:
    """Each event, and each field."""
    page = (ROOT / "docs/reconcile.md").read_text("utf-8")
    said = set(re.findall(r"`([a-z]+)`", page.split("Events are ")[1].split(". Neither")[0]))
    code = "".join(
        path.read_text("utf-8")
        for path in (
            *(ROOT / "reconciler/operations/reconcile").glob("*.py"),
            ROOT / "reconciler/operations/notifications/news.py",
            ROOT / "reconciler/cli/views/reconciled.py",
        )
    )
    named = set(re.findall(r'event="([a-z]+)"', code)) | set(
        re.findall(r'_standing\("([a-z]+)"', code)
    )
    assert named == said
