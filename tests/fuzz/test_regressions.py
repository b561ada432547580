"""What fuzzing has found stays found: every input that was once answered wrongly, and the seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import REGRESSIONS, TARGETS, load, regressions

INPUTS = [(name, path) for name in TARGETS for path in regressions(name)]


@pytest.mark.parametrize(("name", "path"), INPUTS, ids=lambda one: getattr(one, "name", one))
def test_an_input_that_was_answered_wrongly_is_answered_rightly(name: str, path: Path) -> None:
    load(name).look(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_begins_with_something(name: str) -> None:
    target = load(name)
    seeds = list(target.seeds())
    assert len(seeds) > 10 and all(target.words())
    for seed in seeds:
        target.look(seed)


def test_every_target_keeps_what_it_found() -> None:
    assert {path.name for path in REGRESSIONS.iterdir()} == set(TARGETS)
