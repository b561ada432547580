"""What others wrote, made safe to show; line breaks; what is called like a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli.text import Span, Style, cells, conceal, escape, line, render


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("one\ntwo\r", "one\\ntwo\\r"),
        ("tab\tstop", "tab\\tstop"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("line\u2028sep", "line\\u2028sep"),
        ("lone\ud800", "lone\\ud800"),
        ("Åsa 李", "Åsa 李"),
    ],
)
def test_hostile_text_is_escaped(hostile: str, shown: str) -> None:
    """F-CLI-03: nothing steers the terminal, forges a line or hides its order."""
    assert escape(hostile) == shown


@given(st.text(st.characters(codec=None)), st.sampled_from([0, 20, 80]))
def test_a_rendered_line_holds_nothing_unprintable(text: str, width: int) -> None:
    """F-CLI-03: whatever a span holds, only our own line breaks are left."""
    shown = render(line("ref ", text, hang=4), width=width)
    assert all(part.isprintable() for part in shown.split("\n"))
    if not width:
        assert "\n" not in shown


@given(st.lists(st.text("ab ", max_size=8)))
def test_a_line_that_fits_looks_the_same_on_a_terminal(parts: list[str]) -> None:
    """Spaces that end one span and begin the next one all count: columns stay columns."""
    shown = line(*parts)
    assert render(shown, width=1000) == render(shown)


@given(st.lists(st.text("ab", min_size=1, max_size=8), min_size=1), st.integers(12, 40))
def test_lines_break_at_spaces_only_and_lose_nothing(words: list[str], width: int) -> None:
    shown = render(line(" ".join(words), hang=2), width=width)
    assert shown.split() == words
    assert all(len(one) <= width for one in shown.split("\n"))


def test_colors_never_come_from_text() -> None:
    assert render(line(Span("a\x1b[0m", Style.BAD)), color=True) == "\x1b[1;31ma\\x1b[0m\x1b[0m"
    assert render(line(Span("a", Style.BAD)), color=False) == "a"


def test_wide_letters_count_twice() -> None:
    assert cells("李a") == 3
    assert cells("e\u0301") == 1


@pytest.mark.parametrize(
    "text",
    [
        "  HF_TOKEN: verysecretvalue",
        "  db_password: verysecretvalue",
        '"apiKey": "verysecretvalue"',
        "  client-secret = verysecretvalue",
        "key: -----BEGIN OPENSSH PRIVATE KEY----- verysecretvalue",
        "  note: hf_verysecretvalue",
    ],
)
def test_values_called_like_secrets_are_hidden(text: str) -> None:
    """F-PLN-06: not even the error about that very field shows it."""
    assert "verysecretvalue" not in conceal(text)
    assert "(hidden)" in conceal(text)


@pytest.mark.parametrize(
    "text", ["  publicKey: ssh-ed25519 AAAAC3", "  sku: h100-slice-1", "  secrets:", "tokens: ["]
)
def test_everything_else_stays_readable(text: str) -> None:
    assert conceal(text) == text
