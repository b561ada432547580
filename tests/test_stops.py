"""Every transaction and every call to hosts has its stops, and every stop is one of the table."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.stops import STOP_AT, STOP_LOG, STOPS
from tests.sources import calls, functions
from tests.test_architecture import MODULES, place, room, word

MARKS = {"reach", "around", "transaction", "_recording", "enter"}
"""Functions whose first argument names a stop, or what lies between two."""

BEGINS = re.compile(r"\s*BEGIN\b")
NOTHING_WRITTEN = {"snapshot", "insist", "_connect_to_write"}
"""Transactions that only read, or ask whether one could write."""

NONE: frozenset[str] = frozenset()

COME_TO_TWICE = "from reconciler import stops; [stops.reach('lock.taken') for _ in range(3)]"


def named(path: Path) -> Iterator[tuple[str, ast.Call, ast.expr]]:
    """Calls of `MARKS`: which one, and the argument that names the stop."""
    for name, call in calls(path):
        if name in MARKS and call.args:
            yield name, call, call.args[0]


def stops_of(name: str, word_: str) -> set[str]:
    return {word_} if name == "reach" else {f"{word_}.before", f"{word_}.after"}


def passed_on(path: Path, call: ast.Call) -> bool:
    """Within what hands a name on: the two ends of the journal, and this module itself."""
    return word(path) in ("stops", "store/journal", "store/file/database") and not isinstance(
        call.args[0], ast.Constant
    )


def test_every_mark_is_a_stop_and_every_stop_has_its_mark() -> None:
    marked: set[str] = set()
    for path in MODULES:
        for name, call, argument in named(path):
            if isinstance(argument, ast.Constant):
                found = stops_of(name, str(argument.value))
                assert found <= STOPS.keys(), f"{place(path, call)}: {found - STOPS.keys()}"
                marked |= found
            else:
                assert passed_on(path, call), f"{place(path, call)}: not a literal name"
    assert marked == STOPS.keys()


def test_every_transaction_that_writes_has_its_stops() -> None:
    """A `BEGIN` of one's own is no way around them."""
    stored = [path for path in MODULES if room(path) == "store" and path.stem != "cache"]
    writing = [
        f for f in all_functions(stored) if begins(f.node) and f.node.name not in NOTHING_WRITTEN
    ]
    assert_all_stop(writing, all_functions(stored))


def test_every_call_to_hosts_has_its_stops() -> None:
    """Whatever starts a process towards a host is come to by way of its stops alone.

    Not so what a person waits for, who runs it again where it was cut short: nothing is kept of it.
    """
    spared = ("guard", "program_output")
    around_hosts = [p for p in MODULES if room(p) == "hosts" and p.stem not in spared]
    starting = [f for f in all_functions(around_hosts) if "Popen" in f.names]
    assert_all_stop(starting, all_functions(around_hosts))


@dataclass(frozen=True)
class Function:
    where: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    names: frozenset[str]


def all_functions(paths: Iterable[Path]) -> list[Function]:
    return [
        Function(place(path, node), node, names_called(node))
        for path in paths
        for node in functions(path)
    ]


def assert_all_stop(found: Sequence[Function], known: Sequence[Function]) -> None:
    assert found
    wrong = [f"{one.where}: {one.node.name}" for one in found if not stops(one, known)]
    assert not wrong, "\n".join(wrong)


def stops(function: Function, known: Sequence[Function], below: frozenset[str] = NONE) -> bool:
    """Has marks itself, or everybody who calls it has."""
    if function.names & MARKS:
        return True
    name = function.node.name
    callers = [f for f in known if name in f.names and f.node.name not in below | {name}]
    return bool(callers) and all(stops(caller, known, below | {name}) for caller in callers)


def begins(node: ast.AST) -> bool:
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return any(isinstance(text, str) and BEGINS.match(text) for text in texts)


def names_called(node: ast.AST) -> frozenset[str]:
    """Functions called in it, or handed on by `partial`, `map` or `submit`."""
    called = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
    parts = (part for call in called for part in (call.func, *call.args))
    return frozenset(
        part.id if isinstance(part, ast.Name) else part.attr
        for part in parts
        if isinstance(part, (ast.Name, ast.Attribute))
    )


@pytest.mark.parametrize("number", ["", "#2"])
def test_a_process_is_killed_where_it_was_asked(number: str, tmp_path: Path) -> None:
    """By SIGKILL, at the first or the second time; the log says how far it came."""
    log = tmp_path / "log"
    asked = {STOP_AT: f"lock.taken{number}", STOP_LOG: str(log)}
    ended = subprocess.run(
        [sys.executable, "-c", COME_TO_TWICE], env={**os.environ, **asked}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert log.read_text().splitlines() == ["lock.taken"] * (2 if number else 1)


def test_nothing_stops_unless_asked() -> None:
    subprocess.run([sys.executable, "-c", COME_TO_TWICE], check=True)
    script = "from reconciler import stops; stops.reach('nowhere')"
    subprocess.run([sys.executable, "-c", script], check=True)
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, STOP_AT: "lock.taken"},
        check=False,
        capture_output=True,
    )
    assert b"nowhere is no stop" in ended.stderr
