"""What is fuzzed: each target is a module with `look`, `seeds` and `words`.

`look` takes any bytes at all and raises for an answer that is not the right one; `seeds` are inputs
to begin with, `words` what is worth putting into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.long_inputs import LONG_INPUTS

REGRESSIONS = Path(__file__).with_name("regressions")

TARGETS: Mapping[str, tuple[str, ...]] = {
    "spec_loader": (
        *("reconciler.specs", "reconciler.kinds", "reconciler.planner", "reconciler.cli.views"),
        "reconciler.cli.text",
    ),
    "host_answers": (
        *("reconciler.hosts", "reconciler.planner", "reconciler.kinds", "reconciler.cli.views"),
        *(
            "reconciler.model.codec",
            "reconciler.model.host.descriptor",
            "reconciler.specs.edit.yaml_writer",
        ),
        *("reconciler.operations.node.enroll", "reconciler.operations.node.families"),
    ),
}
"""Each with the code whose branches lead the fuzzer on."""


class Target(NamedTuple):
    look: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    words: Callable[[], Iterable[bytes]]


def load(name: str) -> Target:
    module = import_module(f"tests.fuzz.{name}")
    return Target(look=module.look, seeds=module.seeds, words=module.words)


def regressions(name: str) -> Iterator[tuple[str, bytes]]:
    """Inputs that once led to a wrong answer, each called by what was wrong."""
    for path in sorted((REGRESSIONS / name).iterdir()):
        if path.suffix != ".md":
            yield path.name, path.read_bytes()
    for long, text in LONG_INPUTS.get(name, {}).items():
        yield long, text.encode()
