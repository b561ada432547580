"""Leftovers: each entry of a host has a sort, and a rule of the proof looks at it."""

from __future__ import annotations

from reconciler.model.host.facts.leftover import APART, Leftover, LeftoverWord, read_leftovers
from reconciler.model.host.facts.named_fact import UNKNOWN
from reconciler.model.host.facts.taken_fact import read_taken, taken_key


def test_an_entry_is_sorted_by_its_first_word() -> None:
    entries = [
        "open /dev/x",
        "and 3 more",
        "/srv/whatever",
        "apart file /y",
        "unknown key",
        "and 2",
    ]
    assert list(read_leftovers(entries)) == [
        Leftover(word=LeftoverWord.OPEN, text="open /dev/x"),
        Leftover(word=LeftoverWord.OPEN, text="and 3 more"),
        Leftover(word=LeftoverWord.FILE, text="/srv/whatever"),
        Leftover(word=LeftoverWord.FILE, text="apart file /y", mark=APART),
        Leftover(word=LeftoverWord.KEY, text="unknown key", mark=UNKNOWN),
        Leftover(word=LeftoverWord.KEY, text="and 2", mark=UNKNOWN),
    ]


def test_what_has_no_known_word_counts_as_a_file() -> None:
    """Unknown is not absent: no entry is of no sort."""
    for text in ("", "unknown", "apart", "unknown whatever", "and 3 more"):
        (entry,) = read_leftovers([text])
        assert entry.word is LeftoverWord.FILE
        assert entry.mark == (text.split(" ")[0] if text.startswith(("unknown", "apart")) else "")


def test_taken_numbers_are_read_whole_or_not_at_all() -> None:
    assert taken_key("uid") == "taken uid"
    assert list(read_taken("1000-1005,2000")) == [(1000, 1005), (2000, 2000)]
    for text in ("", "1000-", "1000,x", "unknown: not told", "٣"):
        assert not list(read_taken(text))
