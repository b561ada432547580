"""Moments: what is on a calendar, and near enough to now for anything to be counted from it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.model.moment import format_moment, parse_moment

CENTURY = timedelta(days=36525)


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "9999-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
    ],
)
def test_what_nothing_can_be_counted_from_is_none(text: str) -> None:
    """Whoever writes it in a document of their own would end every command of everybody."""
    assert parse_moment(text) is None


@pytest.mark.parametrize("text", ["1000-01-01T12:00:00Z", "8999-12-30T00:00:00Z"])
def test_what_is_one_can_be_counted_from(text: str) -> None:
    moment = parse_moment(text)
    assert moment is not None and format_moment(moment) == text
    assert moment - CENTURY < moment < moment + CENTURY
