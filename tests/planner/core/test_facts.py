"""What is not seen is absent only where everything of its kind was listed."""

from __future__ import annotations

import pytest

from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.planner.core.facts import differing, shown, told

FACTS = NodeFacts(
    source="host",
    paths={"/home/a": "dir 0700"},
    platform={"account *": "listed", "account a": "uid=20000", "sshd tenants": "unknown: no sshd"},
)


@pytest.mark.parametrize(
    ("facts", "key", "fact"),
    [
        (FACTS, "/home/a", "dir 0700"),
        (FACTS, "/home/b", None),
        (NodeFacts(source="host"), "/home/b", "unknown: not listed"),
        (FACTS, "account a", "uid=20000"),
        (FACTS, "account b", None),
        (FACTS, "sshd tenants", "unknown: no sshd"),
        (FACTS, "slice a", "unknown: not told"),
        (NodeFacts(source="host"), "account a", "unknown: not told"),
        (None, "/home/a", "unknown: the host was not seen"),
    ],
)
def test_shown(facts: NodeFacts | None, key: str, fact: str | None) -> None:
    """F-ANS-03: a listing that failed makes nothing absent."""
    assert shown(facts, key) == fact
    assert is_unknown(fact) == (fact or "").startswith("unknown")


def test_what_must_not_be_there_is_not_believed_gone_on_silence() -> None:
    assert [key for key, *_ in differing(FACTS, {"account b": None, "slice b": None})] == [
        "slice b"
    ]


@pytest.mark.parametrize(
    ("seen", "wanted", "words"),
    [
        ("a=1 usepam=no z=3", "a=1 usepam=yes z=3", ("usepam=no", "usepam=yes")),
        ("a=1 max=90", "a=1", ("max=90", "without max")),
        ("a=1", "a=1 b=2", ("without b", "b=2")),
        ("files=/a /b c=1", "files=/a c=1", ("files=/a /b", "files=/a")),
        ("d=x,/dev/null rw,y c=1", "d=x c=1", ("d=x,/dev/null rw,y", "d=x")),
        ("file 0644 sha256:1", "file 0600 sha256:1", ("file 0644 sha256:1", "file 0600 sha256:1")),
        ("unknown: a=1", "a=1", ("unknown: a=1", "a=1")),
        (None, "a=1", ("absent", "a=1")),
    ],
)
def test_of_many_settings_the_one_that_matters_is_told(
    seen: str | None, wanted: str, words: tuple[str, str]
) -> None:
    """F-REAL-20: the seventeenth setting stands in no part that is cut off."""
    assert told(seen, wanted) == words
