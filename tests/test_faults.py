"""The faults that the product was seen to have: each is held by a test, and each is told."""

from __future__ import annotations

import re

from tests.test_docs import DOCS, ROOT

ID = re.compile(r"F-[A-Z]+-\d{2}")


def test_each_fault_is_held_by_a_test() -> None:
    """A docstring names the fault that the test would find; the page says what was wrong."""
    told = set(ID.findall((DOCS / "faults.md").read_text(encoding="utf-8")))
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "test_faults.py"]
    held = {id_ for path in tests for id_ in ID.findall(path.read_text(encoding="utf-8"))}
    kinds = {id_.rpartition("-")[0] for id_ in told}
    assert told
    assert told == {id_ for id_ in held if id_.rpartition("-")[0] in kinds}
