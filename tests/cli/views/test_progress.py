"""Progress: in place on a terminal, plain lines elsewhere, never on standard output."""

from __future__ import annotations

import errno
import io
import os

import pytest

from reconciler.cli.screen import Screen
from reconciler.cli.text import line
from reconciler.cli.views.progress import ProgressView
from reconciler.model.plan.work import HostProgress


@pytest.mark.parametrize("terminal", [True, False])
def test_every_host_and_phase_is_told(watch, terminal: bool) -> None:
    """F-CLI-03: what a host says is escaped in either form."""
    watched = watch(terminal=terminal)
    with ProgressView(watched.screen) as report:
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
    with ProgressView(watched.screen):
        assert watched.err.shown == ""
    assert watched.err.shown == ""


def test_many_hosts_are_counted(watch) -> None:
    watched = watch(terminal=True, columns=80)
    with ProgressView(watched.screen) as report:
        for number in range(500):
            report(HostProgress(node=f"gpu{number:03}", phase="done"))
    last = watched.err.shown.split("gpu000")[-1]
    assert "500 of 500 hosts" in last
    assert last.count("gpu") < 20


class Gone(io.TextIOWrapper):
    """A terminal that was closed."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("mode", ["TERM=xterm", "TERM=dumb"])
def test_nobody_need_watch(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """F-STA-14: neither drawing nor plain lines nor a wish to stop fail for a closed terminal."""
    monkeypatch.setenv(*mode.split("="))
    monkeypatch.setattr("sys.stdout", Gone())
    monkeypatch.setattr("sys.stderr", Gone())
    screen = Screen()
    progress = ProgressView(screen)
    with progress as report:
        report(HostProgress(node="gpu01", phase="connect"))
        progress.wish(False)
        report(HostProgress(node="gpu01", phase="done"))
    screen.tell([line("a note")])
    screen.show([line("the answer")])
    assert screen.left


@pytest.mark.parametrize(("forced", "said"), [(False, "stopping: "), (True, "ending at once: ")])
def test_a_wish_is_answered(capfd: pytest.CaptureFixture[str], forced: bool, said: str) -> None:
    """F-STA-14: from within a handler of signals, whatever is being written just then."""
    ProgressView(Screen()).wish(forced)
    out, err = capfd.readouterr()
    assert (out, err.startswith(said)) == ("", True)


def test_a_wish_is_answered_where_progress_is_drawn(watch) -> None:
    watched = watch(terminal=True, columns=200)
    progress = ProgressView(watched.screen)
    with progress as report:
        report(HostProgress(node="gpu01", phase="converge"))
        progress.wish(False)
    assert "once more ends it at once" in watched.err.shown
