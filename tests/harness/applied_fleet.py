"""One fleet is applied once a session; tests that need it work on copies of its folder."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.model.moment import format_moment
from reconciler.operations.fleet import utc_now
from tests.harness.yard import Yard, copy_of, hardware_key, laid
from tests.planner import fleet as paper

IN_3_HOURS = format_moment(utc_now() + timedelta(hours=3))
"""When Dana's grant is over, and Bo's older key."""

TRAIN = paper.allocation(
    "train", "slice-2", node="gpu01", access=["ana", "bo", "cem"], expiresAt=paper.LASTING
)
SOLO = paper.allocation("solo", node="gpu02", protect=True, expiresAt=paper.LASTING)
BOX = paper.allocation("box", "whole", "nlp", node="gpu03", owner="bo")
ENDS = {"bo": "none", "cem": "none", "dana": IN_3_HOURS}
GRANTS = tuple(
    paper.grant(f"{user}-on-solo", "solo", user, expiresAt=end) for user, end in ENDS.items()
)
BO = paper.user("bo", "laptop", "desk")
BO["spec"]["keys"][1]["expiresAt"] = IN_3_HOURS
CEM, DANA = (paper.user(name, "laptop", "desk") for name in ("cem", "dana"))
DANA["spec"]["keys"][0]["publicKey"] = hardware_key("dana")
DOCUMENTS = (TRAIN, SOLO, BOX, *GRANTS, BO, CEM, DANA)


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Three nodes of two slots each, everything written, observed and planned, nothing applied.

    Two plans were saved from this state: of everything, and of the project nlp's box alone.
    """
    nodes = {"gpu01": 2, "gpu02": 2, "gpu03": 2}
    yard = laid(tmp_path_factory.mktemp("before"), nodes, *DOCUMENTS)
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
