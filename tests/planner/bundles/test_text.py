"""What a plan says of runtimes: which version follows which, and whether it is there already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.planner.bundles.test_install import HERE, A, having, showing, torch, wanting
from tests.planner.fleet import base_fleet
from tests.planner.walk import applied, make_plan

SHOWN = {"runtime torch/1.0": HERE, "runtime torch/2.0": HERE}


def told(before: list[str], after: list[str], shown: Mapping[str, str] = SHOWN) -> str:
    bundles = [torch("1.0", "2.0", "3.0")]
    of = wanting([*base_fleet(1), *bundles, having(*before)])
    base = applied(make_plan(of, showing(of)), showing(of))
    wanted = wanting([*base_fleet(1), *bundles, having(*after, labels={"x": "y"})])
    state = replace(showing(wanted, shown), recorded=base.recorded, claims=base.claims)
    (change,) = (one for one in make_plan(wanted, state).changes if one.ref == A)
    return change.facts.get("runtimes", "")


THERE, LATER = " is there already, with no download", " is built after all else"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (["1.0"], ["1.0"], ""),
        (["1.0"], ["2.0"], f"upgrades torch 1.0 → 2.0; torch 2.0{THERE}"),
        (["2.0"], ["1.0"], f"rolls back torch 2.0 → 1.0; torch 1.0{THERE}"),
        (["1.0"], ["3.0"], f"upgrades torch 1.0 → 3.0; torch 3.0{LATER}"),
        (["1.0"], ["1.0", "2.0"], f"adds torch 2.0 beside 1.0; torch 2.0{THERE}"),
        (["1.0", "2.0"], ["1.0"], "drops torch 2.0, keeps 1.0"),
        (["1.0"], [], "drops torch 1.0"),
        ([], ["1.0"], f"adds torch 1.0; torch 1.0{THERE}"),
    ],
)
def test_each_change_has_its_word(before: list[str], after: list[str], words: str) -> None:
    """BND-12 BND-13 BND-14 BND-15: and whoever goes back needs no download."""
    assert told(before, after) == words


def test_a_switch_names_both() -> None:
    """BND-13"""
    jax = {**torch("9.0"), "metadata": {"name": "jax"}}
    of = wanting([*base_fleet(1), torch("1.0"), jax, having("1.0")])
    base = applied(make_plan(of, showing(of)), showing(of))
    asks = having("1.0")
    asks["spec"]["runtimes"] = [{"bundle": "jax", "version": "9.0"}]
    wanted = wanting([*base_fleet(1), torch("1.0"), jax, asks])
    state = replace(showing(wanted), recorded=base.recorded, claims=base.claims)
    (change,) = (one for one in make_plan(wanted, state).changes if one.ref == A)
    assert change.facts["runtimes"] == (
        "switches torch 1.0 → jax 9.0; jax 9.0 is built after all else"
    )


def test_a_new_one_says_what_it_gets_and_what_is_old() -> None:
    """BND-01 BND-10"""
    of = wanting([*base_fleet(1), torch("1.0", state="deprecated"), having("1.0")])
    (change,) = (one for one in make_plan(of, showing(of)).changes if one.ref == A)
    assert change.facts["runtimes"] == (
        "adds torch 1.0; torch 1.0 is built after all else; torch 1.0 is deprecated"
    )


def test_without_any_nothing_is_said() -> None:
    """BND-21 OBJ-04: an allocation is whole without any."""
    of = wanting([*base_fleet(1), having()])
    (change,) = (one for one in make_plan(of, showing(of)).changes if one.ref == A)
    assert change.problem is None
    assert "runtimes" not in change.facts
