"""What a host shows as a descriptor: taken to the letter, or not at all."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest

from reconciler.model.canonical import canonical
from reconciler.model.host.capacity import Shape
from reconciler.model.host.descriptor import read_descriptor
from reconciler.model.host.signed_record import RecordError

TOLD: dict[str, Any] = {
    "version": 1,
    "stateId": "0a1b2c3d4e5f6071",
    "ref": "allocation/vision/train",
    "id": "abcdefgh23",
    "login": "train-abcd",
    "uid": 20001,
    "gid": 20001,
    "project": "vision",
    "name": "train",
    "owner": "ana",
    "sku": "slice-2",
    "node": "gpu01",
    "shape": "gpu_slice",
    "slots": [
        {"name": "s0", "uuid": "GPU-0", "pciAddress": "0000:10:00.0"},
        {"name": "s1", "uuid": "GPU-1", "pciAddress": "0000:11:00.0"},
    ],
    "commit": "3f9c2e1",
    "hmac": "",
}


def sign(text: str) -> str:
    return hmac.new(b"key", text.encode(), "sha256").hexdigest()


def signed(**changes: Any) -> dict[str, Any]:
    told = {**TOLD, **changes}
    return {**told, "hmac": sign(canonical({k: v for k, v in told.items() if k != "hmac"}))}


def test_what_was_signed_is_read_and_checked() -> None:
    """Rule 21: whatever way its values are written down."""
    read = read_descriptor(json.dumps(signed(), indent=3))
    assert (str(read.ref), read.slots, read.shape) == (
        "allocation/vision/train",
        ("s0", "s1"),
        Shape.GPU_SLICE,
    )
    assert read.is_signed_by(sign)
    assert not read.is_signed_by(lambda text: sign(text + " "))


@pytest.mark.parametrize(
    "field", sorted(TOLD.keys() - {"version", "hmac", "ref", "project", "name"})
)
def test_no_field_changes_without_its_signature(field: str) -> None:
    """Rule 21: each of them is covered."""
    other: dict[str, Any] = {
        "stateId": "ffff",
        "id": "bbbbbbbbbb",
        "login": "other-abcd",
        "uid": 20002,
        "gid": 20002,
        "owner": "bo",
        "sku": "slice-1",
        "node": "gpu02",
        "shape": "baremetal",
        "slots": TOLD["slots"][:1],
        "commit": "",
    }
    told = {**signed(), field: other[field]}
    assert not read_descriptor(json.dumps(told)).is_signed_by(sign)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "[" * 100_000,
        json.dumps({**TOLD, "more": 1}),
        json.dumps({k: v for k, v in TOLD.items() if k != "hmac"}),
        json.dumps(TOLD).replace('"uid": 20001', '"uid": 20001, "uid": 0'),
        json.dumps(TOLD).replace("20001", "NaN"),
    ],
)
def test_no_descriptor_at_all(text: str) -> None:
    """F-PAR-01 and others: half of one, two in one, and what only looks like one."""
    with pytest.raises(RecordError):
        read_descriptor(text)


def test_its_end_is_read_and_who_was_told_before_there_were_ends_has_none() -> None:
    end = "2026-12-11T12:00:00Z"
    for told, expires in ((signed(version=2, expiresAt=end), end), (signed(), "")):
        assert read_descriptor(json.dumps(told)).expires_at == expires


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": 3},
        {"version": 2, "expiresAt": "tomorrow"},
        {"version": 2, "expiresAt": None},
        {"version": True},
        {"version": 1.0},
        {"version": "1"},
        {"stateId": ""},
        {"stateId": "a b"},
        {"stateId": "x" * 65},
        {"ref": "allocation/vision/other"},
        {"ref": "user/ana"},
        {"ref": ["allocation/vision/train"]},
        {"name": "../../etc"},
        {"project": "vision\n"},
        {"id": "../../../x"},
        {"id": "ABCDEFGH23"},
        {"login": "root"},
        {"login": "train-abcd\n"},
        {"uid": 0.5},
        {"uid": True},
        {"uid": -1},
        {"uid": 999},
        {"uid": 60000},
        {"uid": 10**30},
        {"gid": "20001"},
        {"owner": None},
        {"owner": "ana bo"},
        {"sku": {}},
        {"node": "gpu01/../.."},
        {"shape": "slice"},
        {"shape": []},
        {"slots": []},
        {"slots": {}},
        {"slots": ["s0"]},
        {"slots": [{"name": "s0"}]},
        {"slots": [*TOLD["slots"], TOLD["slots"][0]]},
        {"slots": [{**TOLD["slots"][0], "uuid": "\x1b[2J"}]},
        {"slots": [{**TOLD["slots"][0], "uuid": "\ud800"}]},
        {"commit": "HEAD"},
        {"commit": "f" * 65},
        {"hmac": "\ud800"},
        {"hmac": 1},
    ],
)
def test_a_field_that_no_descriptor_has_so(changes: dict[str, Any]) -> None:
    """Whoever signed it: what it says goes into paths, names and the state."""
    with pytest.raises(RecordError):
        read_descriptor(json.dumps({**signed(), **changes}))
