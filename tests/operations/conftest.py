"""One fleet is applied once a session; tests that need it work on copies of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operations.yard import Yard, copy_of, laid
from tests.planner import fleet as paper

TRAIN = paper.allocation("train", "slice-2", node="gpu01", access=["ana", "bo", "cem"])
SOLO = paper.allocation("solo", node="gpu02", protect=True)
BOX = paper.allocation("box", "whole", "nlp", node="gpu03", owner="bo")
GRANTS = tuple(
    paper.grant(f"{user}-on-solo", "solo", user, expiresAt="none") for user in ("bo", "cem", "dana")
)


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Three nodes of two slots each, everything written, observed and planned, nothing applied.

    Two plans were saved from this state: of everything, and of the project nlp's box alone.
    """
    nodes = {"gpu01": 2, "gpu02": 2, "gpu03": 2}
    yard = laid(tmp_path_factory.mktemp("before"), nodes, TRAIN, SOLO, BOX, *GRANTS)
    everything = yard.plan("--refresh", "--save", str(yard.folder / "all.plan"))
    assert everything.code == 0, everything.blocked or everything.document["problems"]
    box = yard.plan("--only", "project/nlp", "--save", str(yard.folder / "some.plan"))
    assert box.code == 0, box.document
    return yard


@pytest.fixture(scope="session")
def applied(before: Yard, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """The fleet of `before` with its first plan applied; not to be changed."""
    yard = copy_of(before, tmp_path_factory.mktemp("applied"))
    done = yard.apply(str(yard.folder / "all.plan"))
    assert done.code == 0, done.document["problems"]
    return yard


@pytest.fixture
def yard(applied: Yard, tmp_path: Path) -> Yard:
    """A copy of the applied fleet, to do with as a test likes."""
    return copy_of(applied, tmp_path)
