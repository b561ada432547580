"""The output of a program that a person waits for, up to a bound."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """`text` is of whatever bytes; `is_whole` says whether it ended where it might still go on."""

    code: int
    text: str
    is_whole: bool


def output_of(
    command: Sequence[str],
    most: int,
    environment: Mapping[str, str] | None = None,
    *,
    alone: bool = False,
) -> Output:
    """Run a program to its end, or until it has printed more than `most` bytes.

    `alone` it is given nothing to read, and what it says of errors is among what it prints; else
    it may speak to the person meanwhile. Raises OSError where it cannot be started.
    """
    program = subprocess.Popen(
        list(command),
        env=environment,
        stdin=subprocess.DEVNULL if alone else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if alone else None,
    )
    assert program.stdout is not None
    with program:
        try:
            said = program.stdout.read(most + 1)
            if len(said) <= most:
                program.wait()
        finally:
            program.kill()
    text = said[:most].decode("utf-8", "replace")
    return Output(code=program.returncode, text=text, is_whole=len(said) <= most)
