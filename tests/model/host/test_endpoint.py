"""Endpoints: every text of one has a plain form, and whatever else it says is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.host.endpoint import Endpoint, unsound
from reconciler.model.ref import Ref

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEJ8AAmimaYaoZzzz9T7efd1SYylR9EjaCD48IDWMElQ"
PLAIN = Endpoint(
    ref=Ref("allocation", "vision", "train-a"),
    node="gpu01",
    login="train-a-k7q2",
    host="train-a.vision.gpu",
    address="gpu01.corp.example",
    port=2222,
    host_keys=(KEY,),
    jump="ops@jump.corp.example:2200",
)
FOLDER = replace(PLAIN, address="", port=22, host_keys=(), jump="", folder="/fleet/nodes/gpu01/x")


@pytest.mark.parametrize(
    "endpoint",
    [PLAIN, FOLDER, replace(PLAIN, address="fe80::1", host="train-a.vision", jump="")],
)
def test_what_schemas_let_through_is_plain(endpoint: Endpoint) -> None:
    assert unsound(endpoint) == ""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("address", "-oProxyCommand=sh"),
        ("address", "host\nProxyCommand sh"),
        ("address", "%h"),
        ("address", "a b"),
        ("address", ""),
        ("address", "x" * 5000),
        ("login", "root\n"),
        ("login", "-l"),
        ("login", "a'b"),
        ("host", "*"),
        ("host", "a b"),
        ("host", "git.corp.example"),
        ("host", "train-a.visionary"),
        ("node", "gpu01,*"),
        ("node", "@cert-authority"),
        ("host_keys", ()),
        ("host_keys", (f"{KEY}\n* {KEY}",)),
        ("host_keys", (f"{KEY} comment",)),
        ("host_keys", ('ssh-ed25519 A" "B',)),
        ("jump", "jump -oProxyCommand=sh"),
        ("jump", "-F/etc/passwd"),
        ("port", 0),
        ("port", "22"),
        ("port", True),
        ("ref", Ref("user", "", "ana")),
    ],
)
def test_what_could_be_an_order_is_named(field: str, value: Any) -> None:
    """ALC-05: texts of specs and of published files are data; none adds a line or an option."""
    assert unsound(replace(PLAIN, **{field: value})) == field
