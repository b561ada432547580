"""Events: each says from which part of the program it comes."""

from __future__ import annotations

import pytest

from reconciler.model.codec import encode
from reconciler.model.state.event import COMPONENTS, Component, Event, EventType


@pytest.mark.parametrize("type_", EventType)
def test_each_event_carries_its_component(type_: EventType) -> None:
    """MAT-03 F-REAL-23: in what people read and in what programs read."""
    event = Event(type=type_, actor="ana")
    assert event.component is COMPONENTS[type_]
    assert encode(event)["component"] == COMPONENTS[type_].value


def test_each_component_has_events() -> None:
    assert set(COMPONENTS.values()) == set(Component)
