"""Drain and undrain as an operator uses them: a word in a file, and nothing else of it changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.yard import Yard, laid

REASON = "driver: 570 to 580"
UNTIL = "2030-12-03T06:00:00Z"
COMMENTED = """\
  admin:
    # as agreed
    state: active  # for now
"""


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return laid(tmp_path, {"gpu01": 1})


def text(yard: Yard) -> str:
    return (yard.specs / "node/gpu01.yaml").read_text()


def test_a_drain_is_a_word_in_the_file_and_an_undrain_takes_it_back(yard: Yard) -> None:
    """Rule 10, PLC-13: nothing has happened by it yet; twice is once."""
    before = text(yard)
    said = yard.gpuaas("node", "drain", "gpu01", "--reason", REASON, "--until", UNTIL)
    assert (said.code, said.document["result"]["state"]) == (0, "draining")
    lines = [line for line in text(yard).splitlines() if line not in before.splitlines()]
    assert lines == [f'  admin: {{state: draining, reason: "{REASON}", until: "{UNTIL}"}}']
    assert yard.gpuaas("validate").code == 0
    at_once = yard.gpuaas("drain", "node/gpu01", "--reason", REASON, "--until", UNTIL)
    assert at_once.document["result"]["changed"] is False
    other = yard.gpuaas("drain", "gpu01", "--reason", "disks", "--evacuate")
    assert other.document["result"]["state"] == "evacuating"
    assert "until" not in text(yard), "the end of the one before it says nothing about it"
    back = yard.gpuaas("node", "undrain", "gpu01")
    assert (back.code, back.document["result"]["before"]) == (0, "evacuating")
    assert text(yard).replace("  admin: {state: active}\n", "") == before


def test_what_is_not_in_the_commit_is_never_said_to_be(yard: Yard) -> None:
    words = ("drain", "gpu01", "--reason", REASON)
    assert yard.gpuaas(*words).code == 0
    assert yard.gpuaas(*words, "--commit").problems == ["commit_failed"]
    yard.commit()
    assert yard.gpuaas(*words, "--commit").code == 0


def test_what_stands_in_lines_keeps_its_comments(yard: Yard) -> None:
    file = yard.specs / "node/gpu01.yaml"
    file.write_text(text(yard).replace("spec:\n", "spec:\n" + COMMENTED, 1))
    assert yard.gpuaas("drain", "gpu01", "--reason", REASON).code == 0
    assert "    # as agreed\n    state: draining  # for now\n" in text(yard)
    assert yard.gpuaas("node", "undrain", "gpu01").code == 0
    assert "    state: active  # for now\n" in text(yard)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("gpu99", "--reason", "x"), "not_found"),
        (("gpu01",), "usage"),
        (("gpu01", "--reason", "a\nb"), "usage"),
        (("gpu01", "--reason", "x", "--until", "2020-01-01T00:00:00Z"), "usage"),
        (("gpu01", "--reason", "x", "--until", "soon"), "usage"),
    ],
)
def test_what_makes_no_sense_is_refused(yard: Yard, words: tuple[str, ...], code: str) -> None:
    before = text(yard)
    assert yard.gpuaas("node", "drain", *words).problems == [code]
    assert text(yard) == before


def test_a_machine_that_is_out_of_use_is_no_drained_one(yard: Yard) -> None:
    file = yard.specs / "node/gpu01.yaml"
    out = "spec:\n  admin: {state: unavailable, reason: burnt}\n"
    file.write_text(text(yard).replace("spec:\n", out, 1))
    assert yard.gpuaas("node", "undrain", "gpu01").problems == ["usage"]
