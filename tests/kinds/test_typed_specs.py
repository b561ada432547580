"""Specs by the type of their kind: made once of what was applied, which is still looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.kinds.sku import SKUS, SkuSpec
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded
from tests.planner import fleet

REF = Ref("sku", "", "gpus-1")


class Damaged(Mapping[str, object]):
    """What the store gives for a text that is not what was recorded."""

    def __getitem__(self, key: str) -> object:
        raise ValueError("damaged")

    def __iter__(self) -> Iterator[str]:
        raise ValueError("damaged")

    def __len__(self) -> int:
        raise ValueError("damaged")


def desired_and_recorded() -> tuple[SkuSpec, Recorded]:
    desired = fleet.desired([fleet.family(), fleet.sku("gpus-1")])
    resource = SKUS.get(desired, "gpus-1")
    assert resource is not None
    recorded = Recorded(ref=REF, normal=resource.normal, digest=resource.digest)
    return resource.spec, recorded


def test_what_was_applied_has_the_type_of_its_kind() -> None:
    spec, recorded = desired_and_recorded()
    assert SKUS.applied(recorded) == SKUS.spec(recorded) == spec
    assert SKUS.applied(recorded) is SKUS.applied(recorded)


def test_another_form_is_read_anew() -> None:
    _, recorded = desired_and_recorded()
    SKUS.applied(recorded)
    spec = {**recorded.normal["spec"], "rootAccess": True}
    other = replace(recorded, normal={**recorded.normal, "spec": spec})
    assert SKUS.applied(other).root_access


def test_damage_is_noticed_though_git_wants_the_same() -> None:
    spec, recorded = desired_and_recorded()
    damaged = replace(recorded, normal=Damaged())
    damaged.take_spec(spec)
    with pytest.raises(ValueError, match="damaged"):
        SKUS.applied(damaged)


def test_what_is_of_another_kind_is_none_of_it() -> None:
    desired = fleet.desired([fleet.family(), fleet.sku("gpus-1")])
    sku = SKUS.get(desired, "gpus-1")
    assert sku is not None
    assert SKUS.own(sku) is SKUS.at(desired, REF) is sku
    (family,) = NODE_FAMILIES.of(desired)
    assert SKUS.own(family) is SKUS.own(None) is SKUS.at(desired, family.ref) is None
    assert list(SKUS.among((family.ref, REF))) == [REF]
