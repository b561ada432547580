"""What pytest says at the end: how many kills and texts were tried, and what was not and why."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests import privileges, untried

pytest_plugins = ["tests.harness.applied_fleet"]

# What runs on hosts can be imported as the package `gpuaas`.
sys.path.append(str(Path(__file__).parents[1] / "playbooks" / "module_utils"))

# Who commits in a test is nobody's business but the test's; else it would be whoever runs it.
os.environ["GIT_CONFIG_GLOBAL"] = str(Path(__file__).parent / "data" / "gitconfig")


PARTS = {"walk and not slow": "pytest.mark.walk", "wheel": "pytest.mark.wheel"}
"""What is asked for, and the mark in a file that has some of it. Few files have."""

WITHOUT_ANSIBLE = frozenset(Path(__file__).parent / room for room in ("operations", "journeys"))
PLAIN_SUPERVISOR = Path(__file__).parent / "hosts" / "ansible" / "plain_supervisor.py"


def listen() -> None:
    """What `nohup` and `&` have a run ignore, it would hand down to all that it starts and tries.

    So it hears them and goes on; and since nobody inherits a handler, what it starts is ended by
    them. Workers hear them too, which the run itself ends.
    """
    worker = "PYTEST_XDIST_WORKER" in os.environ
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if worker or signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


listen()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of the files that have no test of the part that is asked for, none is read."""
    mark = PARTS.get(config.option.markexpr)
    if mark is None or not collection_path.match("test_*.py"):
        return None
    return mark not in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        privileges.have(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Operations on directory hosts do without Ansible, unless it is what a test is about.

    So do commands that it starts by `tests.harness.own_process`.
    """
    with pytest.MonkeyPatch.context() as patch:
        plain = not WITHOUT_ANSIBLE.isdisjoint(item.path.parents)
        if plain and not item.get_closest_marker("ansible"):
            from reconciler.hosts.ansible import run

            patch.setattr(run, "GUARD", PLAIN_SUPERVISOR)
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = terminalreporter.stats.get("passed", ())
    kills = [str(kill) for kill in told(passed, "killed")]
    if kills:
        stops = {kill.split()[-1].partition("#")[0] for kill in kills}
        terminalreporter.write_line(f"{len(kills)} kills at {len(stops)} stops")
    tried = [int(str(number)) for number in told(passed, "hostile")]
    if tried:
        terminalreporter.write_line(f"{sum(tried)} pairs of a text field and a hostile text")
    skipped = untried.reasons(terminalreporter.stats.get("skipped", ()))
    if skipped:
        terminalreporter.write_line(untried.line(skipped))
    untried.keep(skipped)


def told(reports: list[pytest.TestReport], wanted: str) -> Iterator[object]:
    for report in reports:
        yield from (value for name, value in report.user_properties if name == wanted)
