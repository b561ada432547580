"""Segments: one document of a file is taken, changed or put there, and no other text moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.specs.edit.segments import appended, removed, replaced, segment_of, segments

HEAD = "# of the file\n"
ONE, TWO = "# one\na: 1 # inline\n", "---\n# two\nb: |\n  text\n  # no comment\n"
THREE = "--- # three\nc: 3\n"
FILE = ONE + TWO + THREE


def test_each_has_its_own_text() -> None:
    assert [segment_of(FILE, at) for at in range(3)] == [ONE, TWO, THREE]


def test_what_stands_before_the_first_separator_is_the_files() -> None:
    text = HEAD + TWO + THREE
    assert [segment_of(text, at) for at in range(2)] == [TWO, THREE]
    assert removed(text, 0) == HEAD + THREE


@pytest.mark.parametrize("at", range(3))
def test_one_is_taken_out(at: int) -> None:
    parts = [ONE, TWO, THREE]
    assert removed(FILE, at) == "".join(part for part in parts if part != parts[at])


def test_one_is_put_in_the_place_of_another() -> None:
    assert replaced(FILE, 0, "---\nz: 1\n") == "z: 1\n" + TWO + THREE
    assert replaced(FILE, 1, "z: 1") == ONE + "---\nz: 1\n" + THREE
    assert replaced(FILE, 2, "z: 1\n") == ONE + TWO + "---\nz: 1\n"
    assert replaced("a: 1", 0, "z: 1") == "z: 1"


def test_one_is_put_behind_the_last() -> None:
    assert appended("a: 1", "z: 1\n") == "a: 1\n---\nz: 1\n"
    assert appended(ONE, TWO) == ONE + TWO


def test_line_ends_are_those_of_the_file() -> None:
    assert appended("a: 1\r\n", "z: 1\n") == "a: 1\r\n---\r\nz: 1\r\n"
    assert replaced("a: 1\n", 0, "z: 1\r\n") == "z: 1\n"


def test_a_document_that_was_ended() -> None:
    text = "a: 1\n...\n# next\n---\nb: 2\n"
    assert segment_of(text, 1).endswith("b: 2\n")
    assert replaced(text, 1, "z: 1\n").endswith("---\nz: 1\n")


@given(st.lists(st.sampled_from([ONE, TWO, THREE, "---\n", "---\nd: {x: [1]}\n"]), max_size=6))
def test_they_are_the_whole_text(parts: list[str]) -> None:
    text = "".join(parts)
    found = segments(text)
    assert (
        "".join(text[start:end] for start, end in found) == text[found[0].start :] if found else 1
    )
