"""Wiping: a method for each kind of device that a slot may have, or no slot with one."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from reconciler.kinds.node import wiping
from tests.kinds.node.test_node import errors
from tests.kinds.sample import Fleet


def test_every_kind_of_device_has_its_method() -> None:
    assert set(wiping.DEVICES) == set(wiping.METHODS) == {"gpu", "nvme", "nic"}
    assert errors(Fleet()) == []


@pytest.mark.parametrize("device", wiping.DEVICES)
def test_a_device_without_a_method_is_refused_at_enrolment(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-PLC-05: a device kind with no wipe method is an error of the node, at its slot."""
    rest = {name: how for name, how in wiping.METHODS.items() if name != device}
    monkeypatch.setattr(wiping, "METHODS", MappingProxyType(rest))
    found = [p for p in Fleet().problems("node/gpu01") if p.code == "device_without_wipe"]
    assert found and all(p.is_error and p.message.endswith(device) for p in found)
