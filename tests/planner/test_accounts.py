"""Accounts: numbers that hosts show in use by others are given to nobody."""

from __future__ import annotations

import pytest

from reconciler.model.capacity import Isolation
from reconciler.model.evidence import NodeFacts, Observation
from reconciler.model.world import Counters
from reconciler.planner.accounts import Accounts, Taken
from tests.planner.fleet import desired


def shows(node: str, **taken: str) -> Observation:
    platform = {"taken *": "listed", **{f"taken {kind}": told for kind, told in taken.items()}}
    return Observation(node=node, at="", facts=NodeFacts(source="host", platform=platform))


def given(*seen: Observation, last: int = 0, times: int = 3) -> list[int]:
    accounts = Accounts(
        desired([]), Counters(last_uid=last), Taken({one.node: one for one in seen})
    )
    return [accounts.of(str(n), "vision", Isolation.ACCOUNT)[0] for n in range(times)]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((), [20000, 20001, 20002]),
        (("20001",), [20000, 20002, 20003]),
        (("20000-20004",), [20005, 20006, 20007]),
        (("20001", "20002"), [20000, 20003, 20004]),
        (("20000-20010,20012", "20005-20011"), [20013, 20014, 20015]),
        (("30000",), [20000, 20001, 20002]),
    ],
)
def test_what_any_host_shows_in_use_is_skipped(told: tuple[str, ...], expected: list[int]) -> None:
    """F-REAL-10: whatever host it is on, as nobody knows where an allocation goes next."""
    assert given(*(shows(f"gpu{at}", uid=one) for at, one in enumerate(told))) == expected


def test_a_number_is_never_given_again_for_that(tmp_path: object) -> None:
    """F-REAL-10: what is skipped is not come back to."""
    assert given(shows("gpu01", uid="20008"), last=20007) == [20009, 20010, 20011]


@pytest.mark.parametrize("told", ["x", "1-2-3", "20001,", "\u0661", "99999999999999999999"])
def test_what_is_no_list_of_numbers_is_passed_over(told: str) -> None:
    """A host is not believed; what it says wrongly costs at most a refusal there."""
    assert given(shows("gpu01", uid=told)) == [20000, 20001, 20002]


def test_a_group_of_others_is_skipped_for_projects() -> None:
    """F-REAL-10: `useradd` gives everybody a group of the same number."""
    taken = Taken({"gpu01": shows("gpu01", gid="20000-20001")})
    accounts = Accounts(desired([]), Counters(), taken)
    assert accounts.of("a", "vision", Isolation.ACCOUNT) == (20000, 20002)
