"""Limits of a policy or a project in error: they hold as they were recorded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.operations.fleet import utc_now
from tests.harness.applied_fleet import BOX, CEM, GRANTS, SOLO, TRAIN
from tests.harness.yard import Said, Yard, project
from tests.journeys.access.test_errors_of_others import elsewhere
from tests.journeys.access.test_key_files import changed
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

BOX_REF = "allocation/nlp/box"


def hours(number: int) -> str:
    at = utc_now() + timedelta(hours=number)
    return format_moment(at.replace(minute=0, second=0, microsecond=0))


def strict(**more: Any) -> dict[str, Any]:
    guard = {"maxRemovals": 5, "maxRemovalPercent": 100}
    lease = {"defaultHours": 24, "maxHours": 48}
    grant = {"mayBeOpenEnded": False, "maxDays": 2}
    return paper.policy(guard=guard, grant=grant, lease=lease, **more)


@pytest.fixture
def limited(yard: Yard) -> Yard:
    """A fleet in which nothing lives for more than two days."""
    ends = (changed(one, expiresAt=hours(10)) for one in (TRAIN, SOLO, BOX))
    yard.write(strict(), *ends, *(changed(one, expiresAt=hours(5)) for one in GRANTS))
    yard.commit()
    done = yard.apply()
    assert done.code == 0, done.document["problems"]
    return yard


def refused(said: Said) -> dict[str, str]:
    changes = said.plan["changes"]
    return {c["ref"]: c["problem"]["code"] for c in changes if c.get("problem")}


def test_a_policy_that_stands_twice_limits(limited: Yard) -> None:
    elsewhere(limited, strict())
    grant = changed(GRANTS[0], expiresAt="none")
    limited.write(changed(BOX, expiresAt=hours(24 * 80)), grant)
    limited.commit()
    done = limited.apply()
    name = f"grant/vision/{grant['metadata']['name']}"
    assert refused(done)[BOX_REF] == "lease_too_long"
    assert refused(done)[name] == "grant_too_long"
    assert limited.recorded(BOX_REF).expires_at < hours(11)


def test_a_project_whose_member_left_limits(limited: Yard) -> None:
    """A member can take their own document away, and so put the project's in error."""
    own = project("vision", "ana", "bo", "cem", "dana")
    own["spec"]["lease"] = {"maxHours": 24, "defaultHours": 24}
    own["spec"]["quota"] = {"gpus": 3, "allocations": 3}
    limited.write(own)
    limited.commit()
    assert limited.apply().code == 0
    limited.write(changed(TRAIN, expiresAt=hours(40)), paper.allocation("more", "slice-1"))
    limited.remove(CEM)
    limited.commit()
    told = refused(limited.plan())
    assert told["allocation/vision/train"] in ("lease_too_long", "resource_broken"), told
    assert "allocation/vision/more" in told, "the quota is used up"


def test_no_end_is_asked_of_a_project_in_error(limited: Yard) -> None:
    """Whether an allocation may go on for ever is what its project says, sound or not."""
    elsewhere(limited, project("nlp", "bo", "ana"))
    limited.write(changed(BOX, expiresAt="none"))
    limited.commit()
    limited.apply()
    assert limited.recorded(BOX_REF).expires_at != ""
