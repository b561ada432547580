"""Progress beside the state: told as it comes, gone without harm, and nobody's truth."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.model.plan.work import HostProgress
from reconciler.model.timeline import Under
from reconciler.store.progress import MODE, PROGRESS, RunProgress, read_progress

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


class Clock:
    """A second passes with each question."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def at(second: int) -> str:
    return f"2026-12-01T12:00:{second:02}Z"


def tick(progress: RunProgress, node: str, *phases: str) -> None:
    for phase in phases:
        progress.tick(HostProgress(node=node, phase=phase))


def test_each_phase_is_told_with_its_first_moment(tmp_path: Path) -> None:
    """VIS-03: what hosts say ticks it, while it happens."""
    progress = RunProgress(tmp_path, Clock())
    progress.begin("run-000007")
    progress.begin_wave()
    tick(progress, "gpu01", "connect", "converge", "converge")
    told = {"gpu01": {"connect": at(1), "converge": at(2)}}
    assert progress.ticks == told
    assert read_progress(tmp_path) == Under(run="run-000007", ticks=told)


def test_a_wave_begins_anew_and_so_does_a_run(tmp_path: Path) -> None:
    progress = RunProgress(tmp_path, Clock())
    progress.begin("run-000007")
    tick(progress, "gpu01", "connect")
    progress.begin_wave()
    tick(progress, "gpu02", "connect")
    assert read_progress(tmp_path).ticks == {"gpu02": {"connect": at(2)}}
    progress.begin("run-000008")
    assert read_progress(tmp_path) == Under(run="run-000008")


def test_it_is_nobody_elses_to_read_and_follows_no_link(tmp_path: Path) -> None:
    progress = RunProgress(tmp_path, Clock())
    progress.begin("run-000007")
    assert stat.S_IMODE((tmp_path / PROGRESS).stat().st_mode) == MODE
    (tmp_path / PROGRESS).unlink()
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / PROGRESS).symlink_to("theirs")
    progress.begin("run-000008")
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_a_run_goes_on_where_it_cannot_be_written(tmp_path: Path) -> None:
    """What is told of a wave is in hand all the same."""
    progress = RunProgress(tmp_path / "nowhere", Clock())
    progress.begin("run-000007")
    tick(progress, "gpu01", "connect")
    assert progress.ticks == {"gpu01": {"connect": at(1)}}


@pytest.mark.parametrize(
    "text", ["", "\x00", "nonsense", "[]", '{"node": 3}', '{"node": []}\n{"run": {}}', "7\n"]
)
def test_what_cannot_be_read_is_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / PROGRESS).write_text(text)
    assert read_progress(tmp_path).ticks == {}


def test_a_line_that_was_cut_off_spoils_none_before_it(tmp_path: Path) -> None:
    progress = RunProgress(tmp_path, Clock())
    progress.begin("run-000007")
    tick(progress, "gpu01", "connect")
    with (tmp_path / PROGRESS).open("a") as file:
        file.write('{"node": "gpu0')
    assert read_progress(tmp_path).ticks == {"gpu01": {"connect": at(1)}}
