"""The fleet that every test of this room may break."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.specs.small_fleet import PEOPLE, PLATFORM, PROJECT, Fleet, allocation


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Two people, one project, one SKU, one allocation: nothing is wrong with it."""
    (tmp_path / "gpuaas.yaml").write_text("operators: [ana]\n")
    fleet = Fleet(tmp_path)
    fleet.write("people.yaml", PEOPLE)
    fleet.write("vision/project.yaml", PROJECT)
    fleet.write("platform.yaml", PLATFORM)
    fleet.write("vision/train.yaml", allocation("train"))
    return fleet
