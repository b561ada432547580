"""The JSON document of every command: one envelope, versioned, with the result inside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reconciler.cli.exit_codes import Exit
from reconciler.cli.text import conceal
from reconciler.model.codec import encode
from reconciler.model.problem import Problem

SCHEMA_VERSION = 1
"""Rises when a field goes away or changes its meaning, not when one is added."""


def document(
    command: str, code: Exit, *, problems: Iterable[Problem] = (), result: object = None
) -> dict[str, object]:
    """The envelope of `schemas/problems.schema.json`; there is no `result` if there was none."""
    shown: dict[str, object] = {
        "schemaVersion": SCHEMA_VERSION,
        "command": command,
        "exitCode": int(code),
        "problems": [encode(without_secret(problem)) for problem in problems],
    }
    if result is not None:
        shown["result"] = encode(result)
    return shown


def without_secret(problem: Problem) -> Problem:
    """The problem without what its source line may give away."""
    if problem.source is None or not problem.source.text:
        return problem
    return replace(problem, source=replace(problem.source, text=conceal(problem.source.text)))
