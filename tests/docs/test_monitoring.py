"""Alerts and the dashboard: about figures that there are, tried, and each with its runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.codes import CODES
from reconciler.model.runbooks import RUNBOOKS
from reconciler.model.symptom import SYMPTOMS
from reconciler.operations.monitoring.metrics import FAMILIES, PREFIX

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "monitoring"
PROMTOOL = shutil.which("promtool") or ""
with_promtool = pytest.mark.skipif(not PROMTOOL, reason="no promtool here")

METRICS = {f"{PREFIX}{one.name}": frozenset(one.labels) for one in FAMILIES}
TARGET = frozenset({"job", "instance"})


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    board: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    found: list[dict[str, Any]] = board["panels"]
    return found


def shown() -> Iterator[str]:
    """What the dashboard asks, in the form that Prometheus itself gets."""
    for panel in panels():
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "5m")


def test_nothing_is_asked_that_there_is_not() -> None:
    """Neither a metric nor a label of it, nor a code."""
    for expression in (*(rule["expr"] for rule in alerts()), *shown()):
        names = re.findall(rf"{PREFIX}[a-z_]+", expression)
        assert names and set(names) <= METRICS.keys(), expression
        for name, within in re.findall(rf"({PREFIX}[a-z_]+)\{{([^}}]*)\}}", expression):
            labels = set(re.findall(r"([a-z]+)(?:=~|!=|=)", within))
            assert labels <= METRICS[name] | TARGET, expression
        for words in re.findall(r"code=~?\"([a-z_|]+)\"", expression):
            assert set(words.split("|")) <= {*CODES, *SYMPTOMS}, expression


def test_each_alert_has_its_runbook_and_is_explained() -> None:
    told = (DOCS / "monitoring.md").read_text("utf-8")
    rows = re.findall(r"^\| `(Gpuaas\w+)` \| (\w+) \| .* \| \[([a-z-]+)\]", told, re.MULTILINE)
    assert rows == [
        (rule["alert"], rule["labels"]["severity"], rule["annotations"]["runbook"])
        for rule in alerts()
    ]
    assert {page for _, _, page in rows} <= set(RUNBOOKS.values())


def test_each_alert_is_tried() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text("utf-8"))["tests"]
    tried: dict[str, set[bool]] = {}
    for test in tests:
        for one in test.get("alert_rule_test", ()):
            tried.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert tried == {rule["alert"]: {True, False} for rule in alerts()}


@with_promtool
@pytest.mark.parametrize(
    "words", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")], ids=" ".join
)
def test_promtool_has_nothing_against_the_alerts(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [PROMTOOL, *words], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_what_the_dashboard_asks_can_be_asked(tmp_path: Path) -> None:
    rules = [{"record": f"shown:{at}", "expr": text} for at, text in enumerate(shown())]
    file = tmp_path / "shown.yml"
    file.write_text(json.dumps({"groups": [{"name": "shown", "rules": rules}]}))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_their_place() -> None:
    found = panels()
    assert len({panel["id"] for panel in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"] and panel["datasource"]["uid"] == "${datasource}"


def test_every_metric_of_the_fleet_is_shown_or_alarmed_of() -> None:
    """What nobody looks at is not worth showing; but for what says what others mean."""
    asked = " ".join((*(rule["expr"] for rule in alerts()), *shown()))
    quiet = {
        "build_info",
        "loop_observations_total",
        "loop_last_round_seconds",
        "loop_idle",
        "state_bytes",
        "revocations_pending",
    }
    names = {name.removeprefix(PREFIX) for name in METRICS if not re.search(rf"{name}\b", asked)}
    assert names == quiet
