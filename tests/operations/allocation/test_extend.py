"""Extending: a later end is written where the end stands, and nothing happens by it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError
from reconciler.operations.allocation.extend import Extension, extend
from tests.harness.yard import Yard, laid
from tests.planner import fleet as paper

REF, HOUR, DAY = "allocation/vision/small", timedelta(hours=1), timedelta(days=1)
SMALL = paper.allocation("small")
RULES = paper.policy(lease={"defaultHours": 48, "maxHours": 240})
COMMENTED = """\
# whose this is stands in the wiki
apiVersion: gpuaas/v1
kind: Allocation
metadata: {name: small, project: vision}
spec:
  sku: slice-1   # the smallest
  owner: ana
"""


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    yard = laid(tmp_path / "yard", {"gpu01": 2}, SMALL, RULES)
    yard.file(SMALL).write_text(COMMENTED)
    yard.commit()
    return yard


def until(yard: Yard, wish: Extension) -> str:
    return extend(yard.fleet(paper.NOW), REF, wish, commit=False).until


@pytest.mark.parametrize(
    ("wish", "end"),
    [
        (Extension(), paper.NOW + 2 * DAY),
        (Extension(by=3 * DAY), paper.NOW + 3 * DAY),
        (Extension(until=paper.NOW + 10 * DAY), paper.NOW + 10 * DAY),
    ],
)
def test_a_later_end_is_written_and_the_rest_stays(
    yard: Yard, wish: Extension, end: datetime
) -> None:
    """Rule 10: by a round trip that keeps every comment."""
    text = format_moment(end)
    assert until(yard, wish) == text
    assert yard.file(SMALL).read_text() == f'{COMMENTED}  expiresAt: "{text}"\n'
    assert not yard.world.recorded


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (Extension(until=paper.NOW + 10 * DAY + HOUR), "lease_too_long"),
        (Extension(by=11 * DAY), "lease_too_long"),
        (Extension(until=paper.NOW - HOUR), "lease_lapsed"),
    ],
)
def test_what_may_not_be_is_not_written(yard: Yard, wish: Extension, code: str) -> None:
    with pytest.raises(ProblemError) as caught:
        until(yard, wish)
    assert caught.value.problems[0].code == code
    assert yard.file(SMALL).read_text() == COMMENTED


def test_what_does_not_live_yet_is_counted_from_now(yard: Yard) -> None:
    stated = format_moment(paper.NOW + 4 * DAY)
    yard.file(SMALL).write_text(f'{COMMENTED}  expiresAt: "{stated}"\n')
    assert until(yard, Extension(by=DAY)) == format_moment(paper.NOW + DAY)


def test_an_open_end_is_moved_by_naming_one(yard: Yard) -> None:
    project = paper.project("vision", "ana", lease={"mayBeOpenEnded": True})
    yard.write(project, paper.allocation("small", expiresAt="none"))
    with pytest.raises(ProblemError) as caught:
        until(yard, Extension())
    assert caught.value.problems[0].code == "lease_endless"
    assert until(yard, Extension(until=paper.NOW + DAY)) == format_moment(paper.NOW + DAY)


def test_the_command_says_that_nothing_has_happened_yet(yard: Yard) -> None:
    said = yard.gpuaas("extend", REF, "--by", "24h", "--commit")
    assert said.code == 0
    result = said.document["result"]
    assert (bool(result["commit"]), result["before"]) == (True, "")
    assert yard.gpuaas("extend", REF, "--by", "24h", "--until", result["until"]).code == 64
    assert yard.gpuaas("extend", "allocation/vision/smell").problems == ["not_found"]
