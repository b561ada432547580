"""Ids and logins follow from what they name."""

from __future__ import annotations

import re

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.ref import Ref
from reconciler.planner.identity.identity import allocation_id, former_login, login_for

REF = Ref("allocation", "vision", "train-a")


def test_an_id_follows_from_state_ref_and_incarnation() -> None:
    """Equal input, equal id; each of the three makes another."""
    first = allocation_id("s1", REF, 1)
    assert first == allocation_id("s1", REF, 1)
    assert re.fullmatch(r"[a-z2-7]{10}", first)
    others = {
        allocation_id("s2", REF, 1),
        allocation_id("s1", REF, 2),
        allocation_id("s1", REF._replace(name="train-b"), 1),
    }
    assert len(others | {first}) == 4


def test_a_login_that_is_taken_gives_way_to_the_next_letters() -> None:
    """Rule 5: unique, and never used again."""
    assert login_for("train-a", "abcdefghij", ()) == "train-a-abcd"
    assert login_for("train-a", "abcdefghij", {"train-a-abcd"}) == "train-a-bcde"
    assert len(login_for("a" * 32, "abcdefghij", ())) == 24 + 5


def test_no_login_left_is_a_refusal() -> None:
    taken = {f"a-{'abcdefghij'[n : n + 4]}" for n in range(7)}
    with pytest.raises(ProblemError, match="uids_exhausted"):
        login_for("a", "abcdefghij", taken)


def test_a_former_login_is_never_that_of_somebody_living() -> None:
    """What is looked up here is going to be removed."""
    assert former_login("a", "abcdefghij", {"a-bcde"}, ()) == "a-bcde"
    assert former_login("a", "abcdefghij", {"a-abcd"}, {"a-abcd"}) == "a-bcde"
    assert former_login("a", "abcdefghij", (), ()) == "a-abcd"
