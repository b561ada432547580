"""Accounts: numbers that hosts show in use by others are given to nobody."""

from __future__ import annotations

import pytest

from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.state.world import Counters
from reconciler.planner.identity.accounts import Accounts, Taken
from tests.planner.fleet import desired


def shows(node: str, **taken: str) -> Observation:
    platform = {"taken *": "listed", **{f"taken {kind}": told for kind, told in taken.items()}}
    return Observation(node=node, at="", facts=NodeFacts(source="host", platform=platform))


ACCOUNT = Isolation.ACCOUNT


def accounts_of(*seen: Observation, counters: Counters | None = None) -> Accounts:
    return Accounts(desired([]), counters or Counters(), Taken({one.node: one for one in seen}))


def given(
    *seen: Observation, counters: Counters | None = None, times: int = 3, node: str = "gpu09"
) -> list[int]:
    accounts = accounts_of(*seen, counters=counters)
    return [accounts.of(str(n), "vision", ACCOUNT, node)[0] for n in range(times)]


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


def test_what_somebody_had_and_what_may_have_been_given_is_not_come_back_to() -> None:
    """Rule 15: whatever is shown, and whoever had it is long gone."""
    counters = Counters(uids={"a": 20011, "b": 20013}, least_uid=20009)
    assert given(shows("gpu01", uid="20012"), counters=counters) == [20010, 20014, 20015]
    ended = Counters(given_gids=frozenset({20000}), gids={"nlp": 20001})
    assert accounts_of(counters=ended).of("a", "vision", ACCOUNT, "gpu01")[1] == 20002


ALL = "20000-59999"


@pytest.mark.parametrize("told", [ALL, "20000-59998", "20000-25000"])
def test_a_host_that_shows_all_numbers_leaves_the_others_theirs(told: str) -> None:
    """No more can be made anywhere, else, by a word of one host; and none are used up by it."""
    liar = shows("gpu01", uid=told, gid=told)
    assert given(liar, shows("gpu02", uid="20001"), node="gpu02") == [20000, 20002, 20003]
    accounts = accounts_of(liar)
    own = 25001 if told == "20000-25000" else 20000
    assert accounts.of("a", "nlp", ACCOUNT, "gpu01") == (own, own)
    assert accounts.of("b", "vision", ACCOUNT, "gpu02") == (20000 + (own == 20000),) * 2


def test_what_its_directory_gives_to_others_is_skipped_on_a_host() -> None:
    """A directory server may have thousands; every host shows the same."""
    seen = [shows(name, uid="20000-23999") for name in ("gpu01", "gpu02")]
    assert given(*seen, node="gpu02") == [24000, 24001, 24002]


@pytest.mark.parametrize("told", ["x", "1-2-3", "20001,", "\u0661", "99999999999999999999"])
def test_what_is_no_list_of_numbers_is_passed_over(told: str) -> None:
    """A host is not believed; what it says wrongly costs at most a refusal there."""
    assert given(shows("gpu01", uid=told)) == [20000, 20001, 20002]


def test_a_group_of_others_is_skipped_for_projects() -> None:
    """F-REAL-10: `useradd` gives everybody a group of the same number."""
    accounts = accounts_of(shows("gpu01", gid="20000-20001"))
    assert accounts.of("a", "vision", ACCOUNT, "gpu02") == (20000, 20002)
