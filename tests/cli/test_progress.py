"""Progress: in place on a terminal, plain lines elsewhere, never on standard output."""

from __future__ import annotations

import pytest

from reconciler.cli.views.progress import Progress
from reconciler.model.work import HostProgress


@pytest.mark.parametrize("terminal", [True, False])
def test_every_host_and_phase_is_told(watch, terminal: bool) -> None:
    """F-CLI-03: what a host says is escaped in either form."""
    watched = watch(terminal=terminal)
    with Progress(watched.screen) as report:
        report(HostProgress(node="gpu01", phase="connect"))
        report(HostProgress(node="gpu01", phase="converge"))
        report(HostProgress(node="gpu02", phase="failed", detail="no\x1b]0;x\x07 space\nleft"))
        report(HostProgress(node="gpu01", phase="done"))
    assert watched.out.shown == ""
    shown = watched.err.shown
    assert all(word in shown for word in ("gpu01", "gpu02", "failed", "done"))
    assert "\\x1b]0;x\\x07 space\\nleft" in shown
    if not terminal:
        assert [one.split()[:2] for one in shown.splitlines()] == [
            ["gpu01", "connect"],
            ["gpu01", "converge"],
            ["gpu02", "failed"],
            ["gpu01", "done"],
        ]


def test_nothing_is_drawn_before_the_first_word(watch) -> None:
    """A question may come first: the terminal is left alone until work begins."""
    watched = watch(terminal=True)
    with Progress(watched.screen):
        assert watched.err.shown == ""
    assert watched.err.shown == ""


def test_many_hosts_are_counted(watch) -> None:
    watched = watch(terminal=True, columns=80)
    with Progress(watched.screen) as report:
        for number in range(500):
            report(HostProgress(node=f"gpu{number:03}", phase="done"))
    last = watched.err.shown.split("gpu000")[-1]
    assert "500 of 500 hosts" in last
    assert last.count("gpu") < 20
