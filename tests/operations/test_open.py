"""Settings are remembered by their content, and by nothing less."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.operations.fleet import recall_fleet
from reconciler.operations.open import open_fleet

TEXT = "operators: [ana]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gpuaas.yaml").write_text(TEXT)
    (tmp_path / "specs").mkdir()
    (tmp_path / "state").mkdir()
    return tmp_path


def test_a_fleet_is_known_by_the_very_text_of_its_settings(folder: Path) -> None:
    assert recall_fleet(folder) is None
    opened = open_fleet(folder)
    assert recall_fleet(folder / "specs") == opened
    (folder / "gpuaas.yaml").write_text("operators: [bo]\n")
    assert recall_fleet(folder) is None
    assert open_fleet(folder).settings.operators == ("bo",)
    (folder / "gpuaas.yaml").write_text(TEXT)
    assert recall_fleet(folder) == opened


def test_settings_with_a_problem_are_never_known(folder: Path) -> None:
    (folder / "gpuaas.yaml").write_text("operators: []\nspecroot: x\n")
    for _ in range(2):
        assert recall_fleet(folder) is None
        with pytest.raises(ProblemError):
            open_fleet(folder)


def test_where_the_spec_root_leads_is_looked_at_each_time(folder: Path) -> None:
    open_fleet(folder)
    (folder / "specs").rmdir()
    (folder / "specs").symlink_to("/")
    assert recall_fleet(folder) is None


def test_a_state_elsewhere_leaves_the_default_place_alone(folder: Path) -> None:
    (folder / "gpuaas.yaml").write_text(TEXT + "state: elsewhere\n")
    open_fleet(folder)
    assert recall_fleet(folder) is None
    assert not list((folder / "state").iterdir())
