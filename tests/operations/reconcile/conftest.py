"""A fleet of two hosts that a loop has still all to do for, and one that was kept by a loop."""

from __future__ import annotations

import pytest
import yaml

from tests.operations.yard import Yard, copy_of, laid
from tests.planner import fleet as paper


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Two hosts that nobody has looked at yet, and what is wanted of them."""
    yard = laid(
        tmp_path_factory.mktemp("committed"),
        {"gpu01": 2, "gpu02": 2},
        paper.allocation(
            "train", "slice-2", node="gpu01", access=["ana", "bo"], expiresAt=paper.LASTING
        ),
        paper.allocation("solo", node="gpu02", expiresAt=paper.LASTING),
    )
    settings = {"operators": ["olga"], "publish": {"dir": "published"}}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
    yard.commit()
    return yard


@pytest.fixture(scope="session")
def kept(committed: Yard, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """The same fleet, kept by a round that nobody disturbed; not to be changed."""
    yard = copy_of(committed, tmp_path_factory.mktemp("kept"))
    assert yard.gpuaas("reconcile", "--once").code == 0
    return yard
