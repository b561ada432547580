"""Bundles on folders that stand for hosts: built beside their place, while nobody waits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.bundles import hello
from tests.operations.yard import Yard, laid
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

RUNTIMES = [{"bundle": "hello", "version": "1.0"}]
TRAIN = paper.allocation("train", runtimes=RUNTIMES)


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


def test_an_allocation_waits_for_no_bundle(yard: Yard) -> None:
    """BND-03, BND-07, BND-12, F-BUN-01: active first, whatever becomes of the build."""
    yard.write(hello.document(yard.folder, "1.0"), TRAIN)
    wheel = next((yard.folder / "mirror").glob("*.whl"))
    good = wheel.read_bytes()
    wheel.write_bytes(good + b"x")
    yard.commit()
    done = yard.apply()
    assert (done.code, done.problems) == (1, ["runtime_hash_wrong"]), done.messages
    train = yard.recorded("allocation/vision/train")
    assert train.phase == "active"
    told = yard.root("n01") / f"etc/gpuaas/runtime/allocations/{train.id}.env"
    assert "GPUAAS_RUNTIME=hello@1.0\n" in told.read_text()
    assert not (yard.root("n01") / "opt/gpuaas/runtimes/hello/1.0").exists()
    assert not (yard.root("n01") / "opt/gpuaas/runtimes/hello/current").exists()

    wheel.write_bytes(good)
    assert yard.plan().change("bundle/hello")["facts"] == {"builds": "1.0 on n01"}
    begun = yard.apply("--no-wait")
    assert (begun.code, begun.problems) == (0, ["staging_under_way"]), begun.messages
    _is_finished_by_the_next_apply(yard)


def _is_finished_by_the_next_apply(yard: Yard) -> None:
    """F-ANS-13: what it says of itself is lost; it is not begun again, and its result counts."""
    staging = yard.root("n01") / "opt/gpuaas/staging"
    (tree,) = staging.glob("*/trees/hello/1.0")
    held = os.open(tree, os.O_RDONLY)
    try:
        for told in staging.rglob("phase.json"):
            told.unlink()
        done = yard.apply()
        assert done.code == 0, done.messages
        assert greeting(yard, "1.0") == "hello 1.0\n"
        built = (yard.root("n01") / "opt/gpuaas/runtimes/hello/1.0").stat()
        assert built.st_ino == os.fstat(held).st_ino, "it was begun a second time"
    finally:
        os.close(held)
    assert yard.plan("--detailed-exitcode").code == 0
    phases = {one["name"] for op in yard.gpuaas("timeline", "bundle/hello").document["result"]
              ["operations"] for one in op["phases"]}  # fmt: skip
    assert {"staging", "staged", "failed"} <= phases, "BND-25"
