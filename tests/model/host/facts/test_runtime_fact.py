"""What a host tells of a runtime, read in one place."""

from __future__ import annotations

import pytest

from reconciler.model.host.facts.runtime_fact import RuntimeWord, read_runtime, runtime_key, staged


@pytest.mark.parametrize(
    ("text", "word", "rest"),
    [
        ("staged sha256:12", RuntimeWord.STAGED, "sha256:12"),
        ("staging wheels", RuntimeWord.STAGING, "wheels"),
        ("failed wheel_missing: torch 2.9", RuntimeWord.FAILED, "wheel_missing: torch 2.9"),
        ("changed 2: bin/python", RuntimeWord.CHANGED, "2: bin/python"),
        ("staged", RuntimeWord.STAGED, ""),
        ("", None, ""),
        ("stagedfoo bar", None, ""),
        ("unknown: permission denied", None, ""),
    ],
)
def test_a_word_and_what_follows_it(text: str, word: RuntimeWord | None, rest: str) -> None:
    fact = read_runtime(text)
    assert (fact.text, fact.word, fact.rest) == (text, word, rest)


def test_what_is_written_is_what_is_read() -> None:
    assert read_runtime(staged("sha256:12")).rest == "sha256:12"
    assert runtime_key("pytorch", "2.9") == "runtime pytorch/2.9"
