"""An apply that is killed while hosts build bundles: what they began is not begun again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.bundles import hello
from tests.harness.crash import APPLY, kill
from tests.harness.yard import Yard, copy_of, laid
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

RUNTIMES = [{"bundle": "hello", "version": "1.0"}]
TREE = "opt/gpuaas/runtimes/hello/1.0"


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """An allocation that names a bundle, nothing of it applied."""
    folder = tmp_path_factory.mktemp("staging")
    yard = laid(folder / "yard", {"gpu01": 1})
    yard.write(hello.document(yard.folder, "1.0"))
    yard.write(paper.allocation("train", runtimes=RUNTIMES))
    return yard


@pytest.fixture
def yard(begin: Yard, tmp_path: Path) -> Yard:
    """Where whoever builds may come to, with wheels beside it."""
    tmp_path.chmod(0o755)
    yard = copy_of(begin, tmp_path / "yard")
    settings = yaml.safe_load((yard.folder / "gpuaas.yaml").read_text())
    settings["index"] = {"mirror": f"file://{yard.folder}/mirror"}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
    yard.commit()
    return yard


@pytest.mark.parametrize("stop", ["build.before", "build.after"])
def test_what_a_host_began_is_not_begun_again(yard: Yard, stop: str) -> None:
    """F-BUN-01 F-ANS-13: nothing half built is seen; the next apply ends it, whoever was killed."""
    kill(yard, APPLY, stop)
    root = yard.root("gpu01")
    assert yard.recorded("allocation/vision/train").phase == "active"
    current = root / "opt/gpuaas/runtimes/hello/current"
    assert not os.path.lexists(current) or (root / TREE).is_dir()
    trees = [*root.glob("opt/gpuaas/staging/*/trees/hello/1.0"), *root.glob(TREE)]
    begun = {tree.stat().st_ino for tree in trees}
    assert begun
    done = yard.apply()
    assert done.code == 0, done.messages
    assert (root / TREE).stat().st_ino in begun
    assert yard.rows("SELECT state FROM install") == [("staged",)]
    assert not list(root.glob("opt/gpuaas/staging/*"))
    assert yard.plan().actions == {}
