"""Elements of lists by key, and where they stand in a document."""

from __future__ import annotations

import pytest

from reconciler.model.keyed import numbered
from reconciler.model.problem import PathPart

DOCUMENT = {
    "spec": {
        "keys": [{"id": "b"}, {"id": "a", "publicKey": "x"}],
        "access": ["bo", "ana"],
        "runtimes": [
            {"bundle": "torch", "version": "1"},
            {"bundle": "torch", "version": "2"},
        ],
        "partitions": [{"id": 7, "slots": ["s1", "s0"]}],
        "approvals": [{"by": "olga"}],
    }
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (("spec", "keys", "a", "publicKey"), ("spec", "keys", 1, "publicKey")),
        (("spec", "access", "ana"), ("spec", "access", 1)),
        (("spec", "runtimes", "torch 2", "version"), ("spec", "runtimes", 1, "version")),
        (("spec", "partitions", "7", "slots", "s0"), ("spec", "partitions", 0, "slots", 1)),
        (("spec", "approvals", 0, "by"), ("spec", "approvals", 0, "by")),
        (("spec", "keys", "gone", "publicKey"), ("spec", "keys")),
        (("spec", "absent", "x"), ("spec", "absent", "x")),
        ((), ()),
    ],
)
def test_keys_become_numbers(path: tuple[PathPart, ...], found: tuple[PathPart, ...]) -> None:
    assert numbered(DOCUMENT, path) == found
