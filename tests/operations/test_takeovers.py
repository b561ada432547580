"""What somebody may take over by another name, and who may give: nothing that others take away."""

from __future__ import annotations

import subprocess
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


def test_who_may_not_give_a_grant_gives_none_by_another_name(yard: Yard) -> None:
    """Cem is a member: the same user and the same allocation, and an end that is not his to say."""
    placed(yard, grant("again", "solo", "bo", former="bo-on-solo", expiresAt="none"), "cem")
    yard.remove(GRANT_OF["bo"])
    done = yard.apply()
    assert done.blocked == {AGAIN_REF: "role_cannot_grant"}
    assert yard.keys(SOLO_REF) == pairs("ana", "cem", "dana")


def test_nobody_renews_a_grant_of_their_own_by_another_name(yard: Yard) -> None:
    """Not one that is over either, which stays recorded for as long as its file does."""
    yard.write(changed(GRANT_OF["dana"], expiresAt="2026-11-01T00:00:00Z"))
    yard.commit()
    yard.apply()
    yard.file(GRANT_OF["dana"]).unlink()
    yard.write(grant("again", "solo", "dana", former="dana-on-solo", expiresAt="none"))
    yard.commit("dana")
    assert yard.apply().blocked == {AGAIN_REF: "role_cannot_grant"}
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem")


def test_an_owner_gives_a_grant_another_name(yard: Yard) -> None:
    """It goes on, and nobody is shut out meanwhile."""
    yard.file(GRANT_OF["bo"]).unlink()
    yard.write(grant("again", "solo", "bo", former="bo-on-solo", expiresAt="none"))
    yard.commit("ana")
    done = yard.apply()
    assert (done.code, done.actions) == (0, {AGAIN_REF: "rename"})
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem", "dana")


TOO_LONG: dict[str, Any] = {"expiresAt": "2099-01-01T00:00:00Z"}
UNSUPPORTED: dict[str, Any] = {"endSessions": False}


@pytest.mark.parametrize(
    ("more", "author", "code"),
    [
        (TOO_LONG, "olga", "grant_too_long"),
        (UNSUPPORTED, "olga", "not_yet_supported"),
        ({}, "dana", "role_cannot_grant"),
        ({"user": "dana"}, "olga", "field_refused"),
    ],
    ids=lambda one: str(one),
)
def test_a_refused_change_of_a_grant_keeps_no_key(
    yard: Yard, more: dict[str, Any], author: str, code: str
) -> None:
    """Rule 9: a key that is no longer named opens nothing, whatever else is wrong with the rest."""
    yard.write(changed(GRANT_OF["cem"], keys=["desk", "laptop"]))
    yard.commit()
    yard.apply()
    yard.write(changed(GRANT_OF["cem"], keys=["laptop"], **more))
    yard.commit(author)
    assert yard.apply().blocked == {"grant/vision/cem-on-solo": code}
    left = [] if "user" in more else ["cem/laptop"]
    assert yard.keys(SOLO_REF) == [*pairs("ana", "bo"), *left, *pairs("dana")]


def test_a_doubt_about_who_wrote_a_change_keeps_nobody_in(yard: Yard) -> None:
    """Bo is swapped for dana by somebody beyond the end of a shallow clone."""
    yard.write(changed(TRAIN, access=["ana", "cem", "dana"]))
    yard.commit("ana")
    yard.commit("olga")
    head = git(yard, "rev-parse", "HEAD")
    (yard.folder / ".git/shallow").write_text(head)
    done = yard.apply()
    assert done.blocked == {TRAIN_REF: "history_shallow"}
    assert yard.keys(TRAIN_REF) == pairs("ana", "cem")


def git(yard: Yard, *words: str) -> str:
    done = subprocess.run(["git", "-C", yard.folder, *words], check=True, capture_output=True)
    return done.stdout.decode()
