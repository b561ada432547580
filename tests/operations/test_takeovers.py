"""What somebody may take over by another name, and who may give: nothing that others take away."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.operations.wiring import utc_now
from tests.operations.conftest import BOX, GRANTS, TRAIN
from tests.operations.test_access import SOLO_REF, TRAIN_REF, changed, pairs
from tests.operations.test_takeaways import elsewhere
from tests.operations.yard import Yard
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

GRANT_OF = {one["spec"]["user"]: one for one in GRANTS}
BOX_REF, MINE_REF = "allocation/nlp/box", "allocation/vision/mine"
BO_REF, AGAIN_REF = "grant/vision/bo-on-solo", "grant/vision/again"
LEASE = {"defaultHours": 24, "maxHours": 240}


def in_hours(hours: int) -> str:
    """A full hour."""
    moment = utc_now().replace(minute=0, second=0, microsecond=0)
    return format_moment(moment + timedelta(hours=hours))


def policy(**changes: Any) -> dict[str, Any]:
    guard = {"maxRemovals": 5, "maxRemovalPercent": 100}
    return paper.policy(
        **{"guard": guard, "grant": {"mayBeOpenEnded": True}, "lease": LEASE, **changes}
    )


def grant(name: str, allocation: str, user: str, former: str = "", **spec: Any) -> dict[str, Any]:
    made = paper.grant(name, allocation, user, **{"expiresAt": in_hours(5), **spec})
    if former:
        made["metadata"]["formerName"] = former
    return made


def takes_train(sku: str = "slice-2", **spec: Any) -> dict[str, Any]:
    """Of bo, in a file of his own, for what is ana's."""
    values = {"owner": "bo", "access": ["bo"], "expiresAt": paper.LASTING, **spec}
    return paper.allocation("mine", sku, node="gpu01", formerName="train", **values)


def placed(yard: Yard, document: Mapping[str, Any], author: str) -> None:
    elsewhere(yard, document)
    yard.commit(author)


@pytest.mark.parametrize("words", [(), ("--only", BO_REF), ("--only", SOLO_REF)], ids=str)
def test_a_rename_that_may_not_be_keeps_no_grant(yard: Yard, words: tuple[str, ...]) -> None:
    """Rule 9: what was removed is gone, by a line of its own, and whatever was asked for."""
    placed(yard, grant("again", "solo", "cem", former="bo-on-solo"), "cem")
    yard.remove(GRANT_OF["bo"])
    assert yard.plan(*words).actions[BO_REF] == "forget"
    done = yard.apply(*words)
    assert BO_REF not in done.blocked
    assert yard.recorded(BO_REF) is None
    assert yard.keys(SOLO_REF) == pairs("ana", "cem", "dana")
    assert yard.recorded(AGAIN_REF) is None
    if not words:
        assert done.blocked == {AGAIN_REF: "field_refused"}


def test_a_rename_that_may_not_be_keeps_no_allocation(yard: Yard) -> None:
    placed(yard, takes_train("slice-1", owner="ana", access=["ana"]), "bo")
    yard.remove(TRAIN)
    done = yard.apply()
    assert done.actions[TRAIN_REF] == "release"
    assert done.blocked == {MINE_REF: "rename_unsound"}
    assert yard.recorded(TRAIN_REF) is None and yard.recorded(MINE_REF) is None


def test_a_removal_by_a_rename_that_may_not_be_is_held_like_any(yard: Yard) -> None:
    """It destroys: the consent to what is safe is none to that, and what is protected stays."""
    placed(yard, takes_train("slice-1", owner="ana", access=["ana"]), "bo")
    yard.remove(TRAIN)
    claims = yard.claims
    done = yard.apply("--auto-approve=safe")
    assert done.blocked == {MINE_REF: "rename_unsound", TRAIN_REF: "held_for_approval"}
    yard.write(changed(TRAIN, protect=True))
    yard.commit()
    assert yard.apply().code == 3
    yard.remove(TRAIN)
    assert yard.apply().blocked == {MINE_REF: "rename_unsound", TRAIN_REF: "protected"}
    assert yard.claims == claims


def test_a_rename_that_may_not_be_keeps_no_lease(yard: Yard) -> None:
    """A new name with an end that may not be: the old one is over, and removed."""
    yard.write(policy(), changed(BOX, expiresAt=in_hours(2)))
    yard.commit()
    assert yard.apply().code == 0
    yard.remove(BOX)
    box = paper.allocation("new", "whole", "nlp", owner="bo", node="gpu03", formerName="box")
    yard.write(changed(box, expiresAt="2099-01-01T00:00:00Z"))
    yard.commit("bo")
    yard.apply_at(utc_now() + timedelta(days=60))
    assert yard.recorded(BOX_REF) is None
    assert not [claim for claim in yard.claims if claim.startswith("allocation/nlp")]


def test_an_owner_ends_a_grant_under_a_new_name(yard: Yard) -> None:
    """Refused for something else in it, it opens nothing all the same."""
    yard.remove(GRANT_OF["cem"])
    over = grant("over", "solo", "cem", former="cem-on-solo", expiresAt="2026-11-01T00:00:00Z")
    yard.write(changed(over, endSessions=False))
    yard.commit("ana")
    assert "not_yet_supported" in yard.apply().blocked.values()
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "dana")
