"""A filter or a ref that names nothing is an error with the nearest name, in every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.model.ref import Ref
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.store.tables import queue
from tests.harness.yard import Yard
from tests.planner import fleet as paper


@pytest.fixture
def wanted(tmp_path: Path) -> Yard:
    """A fleet whose documents nobody has applied: what is wanted is known, too."""
    (tmp_path / "gpuaas.yaml").write_text("operators: [olga]\n", encoding="utf-8")
    (tmp_path / "specs").mkdir()
    yard = Yard(tmp_path)
    assert yard.gpuaas("init").code == 0
    people = [paper.user("ana"), paper.user("olga")]
    projects = [paper.project("vision", "ana"), paper.project("nlp", "ana")]
    yard.write(paper.node("gpu01", 2), *people, *projects, paper.allocation("train"))
    return yard


NEAR = {
    "drift list vision/trian": "vision/train",
    "drift list node/gpu1": "node/gpu01",
    "drift list nlp/train": "vision/train",
    "grant list --user anna": "ana",
    "grant list --allocation vision/tain": "vision/train",
    "events vision/trin": "vision/train",
    "events user/anna": "user/ana",
    "status --project visoin": "vision",
    "status --project visoin --state-only": "vision",
    "activity --project vison": "vision",
    "storage list --project visions": "vision",
    "storage orphans --project vision1": "vision",
    "show vision/trainn": "vision/train",
    "show --states vision/trainn": "vision/train",
    "why vision/trainn": "vision/train",
    "explain vision/trainn": "vision/train",
    "timeline vision/trainn": "vision/train",
    "evidence vision/trainn": "vision/train",
    "plan --only vision/trainn": "vision/train",
    "node show gpu0l": "gpu01",
    "runbook lease_ovr": "lease_over",
    "drift accept vision/trainn x --reason y --until 2099-01-01T00:00:00Z": "vision/train",
    "drift retract vision/trainn x --reason y": "vision/train",
    "extend vision/trainn --by 1d": "vision/train",
    "restart vision/trainn --reason x": "vision/train",
}


@pytest.mark.parametrize("line", NEAR)
def test_what_names_nothing_is_refused_with_the_nearest(wanted: Yard, line: str) -> None:
    """F-REAL-21."""
    said = wanted.gpuaas(*line.split())
    assert said.code == 1, said.document
    assert f"{NEAR[line]}`" in said.messages, said.messages


@pytest.mark.parametrize(
    ("word", "meant"),
    [("train", "vision/train"), ("trian", "vision/train"), ("gpu01", "node/gpu01")],
)
def test_a_bare_name_is_wrong_usage_and_the_ref_is_offered(
    wanted: Yard, word: str, meant: str
) -> None:
    """F-REAL-21: whatever stands before or behind it on the line."""
    said = wanted.gpuaas("show", word)
    assert said.code == 64
    assert f"did you mean `{meant}`?" in said.messages


def test_of_a_name_in_two_projects_both_are_offered(wanted: Yard) -> None:
    """F-REAL-21."""
    wanted.write(paper.allocation("train", project="nlp"))
    assert "`nlp/train` or `vision/train`" in wanted.gpuaas("events", "train").messages


@pytest.mark.parametrize(
    "line",
    [
        "events vision/train",
        "status --project nlp",
        "activity --project nlp",
        "storage list --project nlp",
        "drift list vision/train",
        "grant list --user olga",
    ],
)
def test_what_is_wanted_and_has_nothing_to_show_is_no_error(wanted: Yard, line: str) -> None:
    """F-REAL-21: only what is nowhere is."""
    assert wanted.gpuaas(*line.split()).code in (0, 4)


def test_what_once_was_has_a_history(wanted: Yard) -> None:
    """F-REAL-21: neither in the specs nor recorded, but told of by an event."""
    fleet = wanted.fleet()
    _once(fleet, Ref("allocation", "old", "gone"), Ref("project", "", "older"))
    for line in ("events old/gone", "status --project old", "activity --project old"):
        assert wanted.gpuaas(*line.split()).code == 0, line
    assert wanted.gpuaas("activity", "--project", "older").code == 0
    assert wanted.gpuaas("activity", "--project", "o*").code == 1
    assert wanted.gpuaas("activity", "--project", "ol").code == 1


def test_files_that_are_not_read_are_said_by_validate_and_plan(wanted: Yard) -> None:
    """F-REAL-21: .json, no ending, an ending in capitals; not what is there for people."""
    for name in ("a.json", "hello", "b.YAML", "README.md", "README", ".gitkeep", "notes.txt"):
        (wanted.specs / name).write_text("{}\n", encoding="utf-8")
    for command in ("validate", "plan", "plan"):
        said = wanted.gpuaas(command)
        told = {
            problem["source"]["file"]
            for problem in said.document["problems"]
            if problem["code"] == "file_ignored"
        }
        assert told == {"specs/a.json", "specs/hello", "specs/b.YAML"}, command


def test_a_path_that_is_not_there_is_not_sound(wanted: Yard) -> None:
    """F-REAL-21."""
    said = wanted.gpuaas("validate", str(wanted.specs / "nothing.yaml"))
    assert (said.code, said.problems) == (1, ["file_unreadable"])


def _once(fleet: Fleet, *refs: Ref) -> None:
    """Somebody waited for a place, and does not any more; a project was suspended, and resumed."""
    with writing(fleet, "test") as journal:
        journal.enter("wait", queue.join, refs)
        journal.enter("stop_waiting", queue.leave, refs)
