"""Who has a volume, as a host tells it: all of them, or nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.model.host.volume_record import read_volume_record
from tests.planner.rebuild.test_volumes import holder, text

SOUND = holder("a" * 10)


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ([], 0),
        ([SOUND], 1),
        ([SOUND, holder("b" * 10, "ro")], 2),
        (None, None),
        ({}, None),
        ([SOUND, {**SOUND, "mode": "rx"}], None),
        ([{**SOUND, "access": "any"}], None),
        ([{**SOUND, "allocation": "../../etc"}], None),
        ([{**SOUND, "machine": 7}], None),
        ([{k: v for k, v in SOUND.items() if k != "login"}], None),
        (["a"], None),
    ],
)
def test_one_that_cannot_be_read_makes_all_unknown(told: Any, known: int | None) -> None:
    """F-STO-04: half of those who have it is not who has it."""
    holders = read_volume_record(text(holders=told)).holders
    assert (None if holders is None else len(holders)) == known


def test_data_reaches_as_far_as_its_backend() -> None:
    """Rule 14: what hosts share, or what a server exports, is the same on each of them."""
    share = {"nfs": {"server": "nas1", "export": "/x", "options": []}}
    for backend, reaches in (
        ({"directory": {"path": "/x", "shared": False}}, False),
        ({"directory": {"path": "/x", "shared": True}}, True),
        ({"loop": {"path": "/x", "filesystem": "ext4"}}, False),
        (share, True),
    ):
        assert read_volume_record(text(backend=backend)).reaches_all is reaches
