"""Glimpse: who writes that somebody is suspended is understood, whatever else is wrong there."""

from __future__ import annotations

import sys

import pytest

from reconciler.model.ref import Ref
from reconciler.specs.read.glimpse import suspended_in

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
        f"---\n{BO}",
        f"kind: Project\n...\n---\n{BO}",
        "--- {kind: User, metadata: {name: bo}, spec: {state: suspended}}",
        f"# {'x' * 9000}\n{BO}",
        BO + "x" * (2 << 20),
        BO.replace("  name: bo\n", "  name: bo\n  labels: {name: cem}\n"),
        BO.replace("  name: bo\n", "  labels: {name: cem}\n  name: bo\n"),
        BO.replace("  name: bo\n", "  labels:\n    name: cem\n  name: bo\n"),
        "spec:\n  state: suspended\nkind: User\nmetadata: {labels: {}, name: bo}\n",
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
        BO.replace("  state: suspended\n", "  # x: {state: suspended}\n"),
        BO.replace("  state: suspended\n", "  keys:\n    - state: suspended\n"),
        BO.replace("  state: suspended\n", "  keys:\n      state: suspended\n"),
        "kind: User\nmetadata: {name: bo}\n...\nspec: {state: suspended}\n",
        "\x00\xff" * 1000,
        "",
    ],
)
def test_nobody_else_is(text: str) -> None:
    assert not list(suspended_in(text.encode("utf-8", "surrogateescape")))


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 60000 + "[x",
        "{" * 200000,
        "kind: User\n" * 20000,
        "metadata: {" + "name: x, " * 50000,
    ],
)
def test_its_cost_grows_with_the_text(text: str) -> None:
    """Counted in looks at characters that Python does, by the calls it makes."""
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        list(suspended_in(text.encode()))
    finally:
        sys.setprofile(None)
    assert len(calls) < 20 * len(text.splitlines()) + 20000
