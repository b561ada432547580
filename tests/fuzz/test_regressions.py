"""What fuzzing has found stays found: every input that was once answered wrongly, and the seeds."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import REGRESSIONS, TARGETS, load, regressions

INPUTS = [
    pytest.param(name, content, id=called)
    for name in TARGETS
    for called, content in regressions(name)
]


@pytest.mark.parametrize(("name", "content"), INPUTS)
def test_an_input_that_was_answered_wrongly_is_answered_rightly(name: str, content: bytes) -> None:
    load(name).look(content)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_begins_with_something(name: str) -> None:
    target = load(name)
    seeds = list(target.seeds())
    assert len(seeds) > 10 and all(target.words())
    for seed in seeds:
        target.look(seed)


def test_every_target_keeps_what_it_found() -> None:
    assert {path.name for path in REGRESSIONS.iterdir()} == set(TARGETS)
