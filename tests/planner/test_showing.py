"""What is not seen is absent only where everything of its kind was listed."""

from __future__ import annotations

import pytest

from reconciler.model.evidence import NodeFacts
from reconciler.planner.showing import differing, is_unknown, shown

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
