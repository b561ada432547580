"""The outputs that docs/status.md shows are what its commands say, but for times and names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.render_examples import PAGE, alike, live, render, shown_commands


def test_the_page_shows_what_somebody_looks_for() -> None:
    """VIS-12, RUN-06"""
    shown = {line.split()[1] for line in shown_commands()}
    wanted = {"status", "why", "explain", "timeline", "activity", "evidence", "doctor", "runbook"}
    wanted |= {"proof"}
    assert wanted <= shown


@pytest.mark.walk
def test_examples_are_real_output(tmp_path: Path) -> None:
    """The example fleet is really applied, and asked again."""
    page = PAGE.read_text(encoding="utf-8")
    live(tmp_path)
    assert alike(render(page, tmp_path)) == alike(page), (
        "docs/status.md is not what the commands say: python -m tests.docs.render_examples"
    )
