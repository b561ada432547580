"""CPU sets: what is one, and its one spelling."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.model.host.cpus import count_cpus, format_cpus, parse_cpus


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("0", 1), ("0-13,112-125", 28), ("3,1,2", 3), ("1-3,2-4", 4)]
)
def test_what_is_a_set(text: str, count: int) -> None:
    assert len(parse_cpus(text)) == count_cpus(text) == count


@pytest.mark.parametrize(
    "text", ["5-2", "a", "1-", "-1", "1,,2", "1-2-3", "٣", " 1", "1\n", "99999"]
)
def test_what_is_none(text: str) -> None:
    """INV-05: what cannot be read whole is no set, not a smaller one."""
    with pytest.raises(ValueError):
        parse_cpus(text)
    assert count_cpus(text) == 0


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.frozensets(st.integers(0, 500)))
def test_one_spelling(cpus: frozenset[int]) -> None:
    text = format_cpus(cpus)
    assert parse_cpus(text) == cpus
    assert format_cpus(parse_cpus(text)) == text
    assert len(text) <= len(",".join(map(str, cpus)))
