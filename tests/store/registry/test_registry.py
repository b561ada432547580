"""The registry of tables: which of them is asked at which moment, and in which order."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.state.world import World
from reconciler.store import tables
from reconciler.store.registry import registry
from reconciler.store.registry.contract import Table

ORDER = {
    "hold": "claims volumes attachments wipes installs",
    "begin": "resources people runs revocations expiry restarts removals consents",
    "settle": "runs revocations installs",
    "observe": "observations cleanups installs",
    "conclude": "failures claims volumes attachments",
    "keep": "failures resources people volumes cleanups usage",
    "done": "consents",
    "end": "expiry",
    "note": "removals",
    "stays": "volumes",
    "leave": "volumes",
    "unsee": "observations installs",
    "forget": "people revocations acceptances volumes",
    "rename": "people revocations acceptances volumes attachments accounts",
}
"""Events are told so, and each reads what those before it have written. Others may stand between
them.
"""

TABLES = registry.TABLES
MODULES = {
    path.stem: importlib.import_module(f"{tables.__name__}.{path.stem}")
    for path in sorted(Path(tables.__path__[0]).glob("[a-z]*.py"))
}


def test_every_table_that_has_a_moment_has_a_row() -> None:
    defined = {name for name, module in MODULES.items() if hasattr(module, "TABLE")}
    rows = [name for name, module in MODULES.items() if getattr(module, "TABLE", 0) in TABLES]
    assert set(rows) == defined
    assert len(TABLES) == len(defined)


@pytest.mark.parametrize("moment", ORDER)
def test_tables_are_asked_in_their_order(moment: str) -> None:
    asked: tuple[Callable[..., Any], ...] = getattr(registry, moment.upper())
    assert asked == tuple(hook for table in TABLES if (hook := getattr(table, moment)))
    names = [hook.__module__.rpartition(".")[2] for hook in asked]
    assert [name for name in names if name in ORDER[moment].split()] == ORDER[moment].split()


def test_no_moment_is_without_an_order() -> None:
    assert {field.name for field in dataclasses.fields(Table)} == {*ORDER, "read"}


def test_the_world_is_read_whole_and_nothing_of_it_twice() -> None:
    fields = [name for table in TABLES for name in table.read]
    assert len(fields) == len(set(fields))
    wanted = {field.name for field in dataclasses.fields(World) if field.init}
    assert set(registry.READ) == wanted - {"recorded", "observations"}
