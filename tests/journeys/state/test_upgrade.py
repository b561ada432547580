"""The first plan of a new version: what it would write otherwise is one line, done, and over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler import __version__
from tests.harness.yard import ROOT, Yard

pytestmark = pytest.mark.walk

ALLOCATIONS = ["allocation/nlp/box", "allocation/vision/solo", "allocation/vision/train"]
NEW_LINE = "# written by a newer version\n"


@dataclass(frozen=True)
class Version:
    """Another version of the program, whole, in a folder of its own."""

    folder: Path

    def __call__(self, yard: Yard, *words: str) -> str:
        main = "import sys; from reconciler.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", main, "-C", str(yard.folder), *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "NO_COLOR": "1", "COLUMNS": "160"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def document(self, yard: Yard, *words: str) -> Mapping[str, Any]:
        result: Mapping[str, Any] = json.loads(self(yard, *words, "-o", "json"))["result"]
        return result


def another(folder: Path, template: str, change: Callable[[str], str]) -> Version:
    for name in ("reconciler", "templates", "schemas", "playbooks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    init = folder / "reconciler/__init__.py"
    init.write_text(init.read_text().replace(__version__, "9.9.9"))
    path = folder / "templates" / template
    path.write_text(change(path.read_text()))
    return Version(folder)


def test_an_upgrade_is_one_line_and_then_nothing(yard: Yard, tmp_path: Path) -> None:
    """Rule 21: only what is written otherwise is written, and the next plan is empty."""
    newer = another(tmp_path / "newer", "allocation/keys.j2", lambda text: NEW_LINE + text)
    claims = yard.claims
    planned = newer.document(yard, "plan")
    assert {c["ref"]: c.get("cause") for c in planned["changes"]} == dict.fromkeys(
        ALLOCATIONS, "rerendered"
    )
    assert {c["risk"] for c in planned["changes"]} == {"safe"}
    assert planned["writtenBy"] == __version__
    shown = newer(yard, "plan")
    assert (
        "3 allocations on 3 hosts: platform files re-rendered by gpuaas 9.9.9"
        f" (state was written by {__version__})" in shown
    )
    assert not [ref for ref in ALLOCATIONS if ref in shown]
    assert all(ref in newer(yard, "plan", "--expand") for ref in ALLOCATIONS)
    done = newer.document(yard, "apply", "--auto-approve")
    assert {outcome["step"]["verb"] for outcome in done["outcomes"]} == {"access.sync"}
    for ref in ALLOCATIONS:
        one = yard.recorded(ref)
        keys = (yard.root(one.node) / f"etc/gpuaas/ssh/{one.login}").read_text()
        assert keys.startswith(NEW_LINE)
    assert (yard.claims, yard.world.written_by) == (claims, "9.9.9")
    assert newer.document(yard, "plan", "--refresh")["changes"] == []


def test_other_words_for_the_same_files_touch_no_host(yard: Yard, tmp_path: Path) -> None:
    """Rule 21: what is written as before is no change; an apply writes down what it is made of."""
    newer = another(tmp_path / "newer", "allocation/env.j2", lambda text: "{# new #}" + text)
    hosts = yard.hosts()
    before = {ref: yard.recorded(ref).basis for ref in ALLOCATIONS}
    planned = newer.document(yard, "plan")
    assert (planned["changes"], [c["ref"] for c in planned["confirmed"]]) == ([], ALLOCATIONS)
    newer(yard, "apply", "--auto-approve")
    assert all(yard.recorded(ref).basis != before[ref] for ref in ALLOCATIONS)
    assert newer.document(yard, "plan")["confirmed"] == []
    assert yard.hosts() == hosts
