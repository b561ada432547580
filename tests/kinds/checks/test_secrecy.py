"""What may never stand in a spec is found wherever it stands, and never repeated."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.kinds.checks.secrecy import find_secrets
from tests.kinds.sample import examples

# Put together here, so that no scanner takes this file for a leak.
PRIVATE = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5v\n"
TOKENS = (
    "ghp_" + "a" * 36,
    "glpat-" + "a" * 20,
    "hf_" + "a" * 30,
    "xoxb-" + "1" * 12,
    "AKIA" + "A" * 16,
    "sk-" + "a" * 40,
    "eyJ" + "a" * 10 + ".eyJ" + "b" * 10 + ".c",
    "https://ana:hunter2@git.example/x",
)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"spec": {"keys": [{"publicKey": PRIVATE}]}}, ("spec", "keys", 0, "publicKey")),
        ({"metadata": {"labels": {"x": PRIVATE}}}, ("metadata", "labels", "x")),
        ({"spec": {"unheardOf": [[PRIVATE]]}}, ("spec", "unheardOf", 0, 0)),
    ],
)
def test_private_keys_are_found_anywhere(document: Any, path: tuple[str | int, ...]) -> None:
    """OBJ-05, SEC-06: also in a field that no schema knows."""
    (found,) = find_secrets(document)
    assert (found.path, found.code) == (path, "private_key_in_spec")
    assert "b3Blbn" not in found.message + found.hint


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_found(token: str) -> None:
    """SEC-06: the message names the sort and the place, never the value."""
    (found,) = find_secrets({"spec": {"params": {"x": f"use {token}"}}})
    assert found.code == "secret_in_spec"
    assert token[4:] not in found.message + found.hint


@pytest.mark.parametrize("name", ["password", "API_KEY", "HF_TOKEN", "dbPassword", "client_secret"])
def test_secrets_are_found_by_their_name(name: str) -> None:
    (found,) = find_secrets({"env": {name: "x"}})
    assert (found.path, found.code) == (("env", name), "secret_in_spec")


def test_honest_specs_hold_none() -> None:
    assert [list(find_secrets(document)) for document in examples().values() if document] == [
        [] for _ in examples()
    ]
    keys = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIA== a@b"
    assert not list(find_secrets({"publicKey": keys, "address": "https://index.example/simple"}))
