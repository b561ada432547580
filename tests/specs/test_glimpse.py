"""Glimpse: who writes that somebody is suspended is understood, whatever else is wrong there."""

from __future__ import annotations

import pytest

from reconciler.model.ref import Ref
from reconciler.specs.glimpse import suspended_in

BO = "apiVersion: gpuaas/v1\nkind: User\nmetadata:\n  name: bo\nspec:\n  state: suspended\n"


@pytest.mark.parametrize(
    "text",
    [
        BO,
        f"{BO}\t[",
        f"{BO}  state: active\n",
        BO.replace("name: bo", 'name: "bo"').replace(": suspended", ": 'suspended' # why"),
        "{kind: User, metadata: {name: bo}, spec: {state: suspended, keys: [}}",
        '{"kind": "User", "metadata": {"name": "bo"}, "spec": {"state": "suspended"}',
        BO.replace("\n", "\r\n"),
        f"kind: Project\nmetadata: {{name: vision}}\n---\n{BO}",
        f"\ufeff{BO}",
    ],
)
def test_whoever_is_called_suspended_is_seen(text: str) -> None:
    assert list(suspended_in(text.encode())) == [Ref("user", "", "bo")]


@pytest.mark.parametrize(
    "text",
    [
        BO.replace("User", "Users"),
        BO.replace("state: suspended", "# state: suspended"),
        BO.replace("state: suspended", "restate: suspended"),
        BO.replace("state: suspended", "note: 'the state: suspended'"),
        BO.replace("suspended", "suspendedly"),
        BO.replace("name: bo", "name: B O"),
        "kind: User\nmetadata: {name: bo}\n---\nspec: {state: suspended}\n",
        "\x00\xff" * 1000,
        "",
    ],
)
def test_nobody_else_is(text: str) -> None:
    assert not list(suspended_in(text.encode("utf-8", "surrogateescape")))
