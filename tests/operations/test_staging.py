"""Bundles on folders that stand for hosts: built beside their place, while nobody waits."""

from __future__ import annotations

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
    """BND-03, BND-07, BND-12: active first, then built; the descriptor names the version."""
    yard.write(hello.document(yard.folder, "1.0"), TRAIN)
    yard.commit()
    done = yard.apply()
    assert done.code == 0, done.messages

    assert greeting(yard, "1.0") == "hello 1.0\n"
    assert yard.plan("--detailed-exitcode").code == 0
