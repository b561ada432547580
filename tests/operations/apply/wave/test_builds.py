"""Bundles on folders that stand for hosts: built beside their place, while nobody waits."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.store.file.lock import YIELDING, holder
from tests.bundles import hello
from tests.harness.yard import Yard, laid
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk


def train(version: str) -> dict[str, Any]:
    return paper.allocation("train", runtimes=[{"bundle": "hello", "version": version}])


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    tmp_path.chmod(0o755)
    yard = laid(tmp_path / "yard", {"n01": 2})
    settings = yaml.safe_load((yard.folder / "gpuaas.yaml").read_text())
    mirror = tmp_path / "yard/mirror"
    settings["index"] = {"mirror": f"file://{mirror}"}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
    return yard


def greeting(yard: Yard, version: str, node: str = "n01") -> str:
    program = yard.root(node) / f"opt/gpuaas/runtimes/hello/{version}/bin/gpuaas-hello"
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def installs(yard: Yard) -> dict[str, str]:
    return {one.version: one.state.value for one in yard.world.installs}


def test_an_allocation_waits_for_no_bundle(yard: Yard) -> None:
    """BND-03, BND-07, BND-12, F-BUN-01: active first, whatever becomes of the build."""
    document = hello.document(yard.folder, "1.0", "2.0")
    document["spec"]["versions"][1]["install"]["python"] = "3.99"
    yard.write(document, train("2.0"))
    yard.commit()
    done = yard.apply()
    assert (done.code, done.problems) == (1, ["runtime_python_missing"]), done.messages
    recorded = yard.recorded("allocation/vision/train")
    assert recorded.phase == "active"
    told = yard.root("n01") / f"etc/gpuaas/runtime/allocations/{recorded.id}.env"
    assert "GPUAAS_RUNTIME=hello@2.0\n" in told.read_text()
    assert not (yard.root("n01") / "opt/gpuaas/runtimes/hello/2.0").exists()
    assert not (yard.root("n01") / "opt/gpuaas/runtimes/hello/current").is_symlink()

    yard.write(train("1.0"))
    yard.commit()
    assert yard.plan().change("bundle/hello")["facts"] == {"builds": "1.0 on n01"}
    begun = yard.apply("--no-wait")
    assert (begun.code, begun.problems) == (0, ["staging_under_way"]), begun.messages
    assert "GPUAAS_RUNTIME=hello@1.0\n" in told.read_text()
    assert installs(yard) == {"1.0": "staging", "2.0": "failed"}
    _is_finished_by_the_next_apply(yard)
    _is_told_to_people(yard)


def _is_finished_by_the_next_apply(yard: Yard) -> None:
    """F-ANS-13: what it says of itself is lost; it is not begun again, and its result counts."""
    staging = yard.root("n01") / "opt/gpuaas/staging"
    place = yard.root("n01") / "opt/gpuaas/runtimes/hello/1.0"
    tree = next(staging.glob("*/trees/hello/1.0"), place)
    held = os.open(tree, os.O_RDONLY)
    try:
        for told in staging.rglob("phase.json"):
            told.unlink()
        done = yard.apply()
        assert done.code == 0, done.messages
        assert done.change("bundle/hello")["facts"]["removes"] == "2.0 on n01", "named by nobody"
        assert greeting(yard, "1.0") == "hello 1.0\n"
        assert place.stat().st_ino == os.fstat(held).st_ino, "it was begun a second time"
    finally:
        os.close(held)
    assert installs(yard) == {"1.0": "staged"}
    assert yard.plan("--detailed-exitcode").code == 0
    phases = {one["name"] for op in yard.gpuaas("timeline", "bundle/hello").document["result"]
              ["operations"] for one in op["phases"]}  # fmt: skip
    assert {"staging", "staged", "failed"} <= phases, "BND-25"


def _is_told_to_people(yard: Yard) -> None:
    """BND-09, BND-11, BND-17, BND-26, BND-28: from the bundle's side and the allocation's."""
    rows = yard.gpuaas("bundle", "list").document["result"]["bundles"]
    assert [(one["version"], one["state"]) for one in rows] == [
        ("1.0", "active"),
        ("2.0", "active"),
    ]
    ((standing,), none) = (one["nodes"] for one in rows)
    assert (standing["state"], standing["agrees"], standing["isCurrent"]) == ("staged", True, True)
    assert (standing["usedBy"], none) == (["allocation/vision/train"], [])
    shown = yard.gpuaas("show", "vision/train").document["result"]["facts"]
    assert shown["runtimes"].startswith("hello@1.0 (staged since ")
    (row,) = yard.gpuaas("status").document["result"]["allocations"]
    assert row["runtimes"] == ["hello@1.0 staged"]
    spoilt = yard.root("n01") / "opt/gpuaas/runtimes/hello/1.0/activate.sh"
    spoilt.write_text("exit 1\n")
    assert yard.plan("--refresh").code == 0
    (version,) = yard.gpuaas("bundle", "show", "hello@1.0").document["result"]["versions"]
    assert version["nodes"][0]["shown"] == "changed 1: activate.sh"
    assert version["nodes"][0]["agrees"] is False


APPLY = """
import sys
from reconciler.cli.main import run
sys.exit(run(["-C", sys.argv[1], "apply", "--auto-approve", "-o", "json"]))
"""


def test_who_takes_away_waits_for_no_build(yard: Yard) -> None:
    """Rule 9: an apply that only waits gives way, and the build goes on by itself."""
    yard.write(hello.document(yard.folder, "1.0"), train("1.0"))
    yard.commit()
    waiting = yard.python(APPLY)
    while not ((who := holder(yard.folder / "state/lock")) and who.command.endswith(YIELDING)):
        assert waiting.poll() is None, waiting.communicate()
        time.sleep(0.05)
    taken = yard.gpuaas("suspend", "user/bo", "--reason", "lost laptop")
    assert taken.code == 0, taken.messages
    told, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, "staging_under_way" in told) == (0, True), told
    assert yard.apply().code == 0
    assert greeting(yard, "1.0") == "hello 1.0\n"
