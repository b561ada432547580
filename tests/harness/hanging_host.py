"""Hanging hosts: folders, of which one stops in the midst of its work until it is let go."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.operations.apply.application import Applied
from reconciler.operations.apply.wave import work
from tests.harness.yard import Yard

PYTHON = """#!/bin/sh
# Converge code comes on stdin alone; a look has its question as an argument.
[ $# -eq 2 ] || exec {python} "$@"
code=$(mktemp {folder}/code.XXXXXX)
cat > $code
for node in {nodes}; do
  if grep -q "/nodes/$node\\"" $code; then
    touch {folder}/begun-$node
    while [ -e {folder}/hang ]; do sleep 0.1; done
  fi
done
exec {python} "$@" < $code
"""


@dataclass(slots=True)
class Apply:
    """One that goes on in a thread, until `end` is asked for."""

    yard: Yard
    found: list[Applied] = field(default_factory=list)
    failure: list[BaseException] = field(default_factory=list)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found.append(self.yard.apply_at())
        except Exception as error:  # noqa: BLE001 - told by the thread that asks for the end
            self.failure.append(error)

    @property
    def is_at_work(self) -> bool:
        return self.thread.is_alive()

    def end(self) -> Applied:
        self.thread.join(timeout=240)
        assert not self.failure, self.failure
        (found,) = self.found
        return found


@contextmanager
def hanging(
    patch: pytest.MonkeyPatch, folder: Path, *nodes: str, **options: Any
) -> Iterator[Callable[[], None]]:
    """These nodes stop before their first item; what is given lets them go on."""
    folder.mkdir(exist_ok=True)
    python, hang = folder / "python", folder / "hang"
    hang.touch()
    python.write_text(
        PYTHON.format(python=sys.executable, folder=folder, nodes=" ".join(nodes)), "ascii"
    )
    python.chmod(0o755)
    real = work.run_options

    def chosen(*arguments: Any) -> RunOptions:
        return replace(real(*arguments), python=str(python), **options)

    patch.setattr(work, "run_options", chosen)
    try:
        yield lambda: hang.unlink(missing_ok=True)
    finally:
        hang.unlink(missing_ok=True)
        patch.undo()


def until(what: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)
