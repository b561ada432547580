"""Records are frozen dataclasses in every respect but when they are made in full."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.model.codec import decode, encode
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place."""

    name: str
    size: int = 1
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    note: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: int = 2

    def __post_init__(self) -> None:
        if self.left > self.right:
            raise ValueError("left of right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """With fields that nobody states: of its own making, or with a default."""

    name: str
    size: int = dataclasses.field(init=False)
    kept: list[str] = dataclasses.field(default_factory=list, init=False)
    DEFAULT: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.name))


@dataclass(slots=True, kw_only=True)
class Tally:
    count: int = 0


def test_is_made_with_defaults_of_its_own() -> None:
    one, other = Place(name="a"), Place(name="a", labels={})
    assert (one.size, one.labels, one.note) == (1, {}, "")
    assert one.labels is not other.labels


def test_equality_and_hash_go_by_compared_fields() -> None:
    assert Place(name="a") == Place(name="a", note="said otherwise") != Place(name="b")
    assert Place(name="a") != Tally()
    assert {Pair(1): "x"}[Pair(1, 2)] == "x"


def test_is_frozen_and_has_slots() -> None:
    one: Any = Place(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.other = 1
    assert not hasattr(one, "__dict__")


def test_wrong_arguments_are_told_of_the_class() -> None:
    wrong: Any = Place
    with pytest.raises(TypeError, match=r"Place.__init__\(\) missing 1 required keyword-only"):
        wrong()
    with pytest.raises(TypeError, match="positional"):
        wrong("a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nmae'"):
        wrong(nmae="a")


def test_what_it_insists_on_is_insisted_on_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="left of right"):
            Pair(3)


def test_is_copied_replaced_shown_and_coded_as_any_other() -> None:
    one = Place(name="a", size=2, labels={"x": "y"})
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert dataclasses.replace(one, size=3) == Place(name="a", size=3, labels={"x": "y"})
    assert repr(one) == "Place(name='a', size=2, labels={'x': 'y'}, note='')"
    assert decode(Place, encode(one)) == one
    assert dataclasses.is_dataclass(Place) and Place.__doc__ == "A place."


def test_fields_that_nobody_states_are_made() -> None:
    one = Worked(name="abc")
    assert (one.size, one.kept, one.DEFAULT) == (3, [], "")
    one.kept.append("x")
    assert Worked(name="abc").kept == []
    wrong: Any = Worked
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        wrong(name="a", size=1)


def test_what_is_not_frozen_is_an_ordinary_one() -> None:
    tally = Tally()
    tally.count += 1
    assert tally == Tally(count=1)
