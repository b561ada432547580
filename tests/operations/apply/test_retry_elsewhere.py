"""Tries: what a later one has brought about is no failure, and all else that went wrong is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.operations.apply.retry_elsewhere import Tries

A, B = Ref("allocation", "vision", "a"), Ref("allocation", "vision", "b")


def walk(settled: tuple[Ref, ...], *wrong: tuple[str, Ref]) -> Any:
    """What `Tries` asks of a walk."""
    problems = [Problem(code=code, message="x", ref=str(ref)) for code, ref in wrong]
    return SimpleNamespace(settled=dict.fromkeys(settled), problems=problems)


def errors(*walks: Any) -> list[str]:
    return [one.code for one in Tries(tuple(walks)).problems if one.is_error]


def test_what_stands_elsewhere_was_no_failure() -> None:
    """F-REAL-09"""
    first = walk((), ("path_unsafe", A), ("path_unsafe", B))
    second = walk((A,), ("disk_full", B))
    assert errors(first, second) == ["path_unsafe", "disk_full"]
    assert len(Tries((first, second)).problems) == 3


def test_what_went_wrong_beside_what_stands_is_told_as_it_is() -> None:
    """F-REAL-24: somebody was to be shut out of it meanwhile, and its host did not answer."""
    assert errors(walk((A,), ("host_unreachable", A))) == ["host_unreachable"]
    first, second = walk((A,), ("host_unreachable", A)), walk((B,), ("host_unreachable", B))
    assert errors(first, second) == ["host_unreachable", "host_unreachable"]
