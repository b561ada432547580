"""A comparison: what one plan adds to another over the same state, for a review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from reconciler.model.plan.plan import Change, Plan
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonBase:
    """The base of a comparison: a `revision` as it was named, and its commit.

    It also says how many commits it has that the branch does not have.
    """

    revision: str
    commit: str
    ahead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a branch changes beyond what its base would do already.

    `plan` holds the changes, problems, notes and ends that the branch brings, and nothing that
    could be applied: no steps, claims or fingerprint. `withdrawn` are changes of the base that the
    branch takes away, `shared` those that both would make. `mended` counts problems of the base
    that the branch has not, and `place` is the fleet's folder in its repository.
    """

    base: ComparisonBase
    plan: Plan
    withdrawn: tuple[Change, ...] = ()
    shared: tuple[Change, ...] = ()
    mended: int = 0
    price_per_hour: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
