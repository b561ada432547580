"""What a host tells of a volume that somebody has, read in one place."""

from __future__ import annotations

import pytest

from reconciler.model.host.facts.attached_fact import (
    AttachedFact,
    attached_key,
    had_by_key,
    read_attached,
    read_sound,
)

HAD = AttachedFact(volume="volumeaaaa", mode="rw", path="/data")


def test_what_is_written_is_what_is_read() -> None:
    assert read_attached(HAD.text) == read_sound(HAD.text) == HAD
    assert had_by_key(attached_key("abcdefghij", "data")) == ("abcdefghij", "data")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("wrong: volumeaaaa rw at /data, not mounted", "/data"),
        ("volumeaaaa ro without a view", ""),
    ],
)
def test_what_is_left_half_behind_is_had_and_not_sound(text: str, path: str) -> None:
    found = read_attached(text)
    assert found is not None
    assert (found.volume, found.path) == ("volumeaaaa", path)
    assert read_sound(text) is None


@pytest.mark.parametrize("key", ["attached", "account x", "attachedx a/b", ""])
def test_other_names_are_of_nobody(key: str) -> None:
    found = had_by_key(key)
    assert found is None or found == ("", "")
