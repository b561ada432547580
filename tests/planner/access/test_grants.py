"""Who may give a grant, to whom, and for how long from the moment of the plan on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Plan
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.state.world import World
from tests.planner.fleet import NOW, allocation, base_fleet, desired, grant, policy, project, user
from tests.planner.walk import make_plan, settled

ROLES = {"ana": "owner", "mia": "maintainer", "bo": "member", "vic": "viewer"}


def members() -> dict[str, Any]:
    one = project("vision", "ana")
    one["spec"]["members"] = [{"user": name, "role": role} for name, role in ROLES.items()]
    return one


FLEET = [
    *(d for d in base_fleet() if (d["kind"], d["metadata"]["name"]) != ("Project", "vision")),
    members(),
    *(user(name) for name in ("mia", "vic", "eve")),
    allocation("a"),
]
GRANT = "grant/vision/g"


def by(author: str, *, committed: bool = True) -> Any:
    def origins(files: Mapping[Ref, str], gone: Collection[Ref]) -> Mapping[Ref, Origin]:
        commit = "c0ffee" if committed else ""
        email = f"{author}@corp.example" if committed else ""
        return {ref: Origin(commit=commit, author=author, email=email) for ref in files}

    return origins


def refusal(made: Plan) -> str:
    (line,) = [change for change in made.changes if str(change.ref) == GRANT]
    return line.problem.code if line.problem else ""


def planned(author: str, of: Desired | None = None, seen: World | None = None, **how: Any) -> Plan:
    wanted = of or desired([*FLEET, grant("g", "a", "bo")])
    return make_plan(wanted, seen or settled(FLEET), origins=by(author, **how), actor=author)


@pytest.mark.parametrize(
    ("author", "code"),
    [
        ("ana", ""),
        ("mia", ""),
        ("olga", ""),
        ("bo", "role_cannot_grant"),
        ("vic", "role_cannot_grant"),
        ("eve", "role_cannot_grant"),
        ("nobody-we-know", ""),
    ],
)
def test_who_may_grant(author: str, code: str) -> None:
    """ACC-02, F-GRT-05: owner, maintainer and operator may; member, viewer and strangers may not.

    An author whom no User names is told, and left to the ownership of paths.
    """
    made = planned(author)
    assert refusal(made) == code
    synced = any(step.verb == "access.sync" for step in made.steps)
    assert synced is (code == ""), "what is refused reaches no host"


def test_without_a_commit_the_os_login_counts() -> None:
    vic = user("vic", osLogins=["victor"])
    wanted = desired(
        [*(d for d in FLEET if d["metadata"]["name"] != "vic"), vic, grant("g", "a", "bo")]
    )
    assert refusal(planned("victor", wanted, committed=False)) == "role_cannot_grant"


def test_a_change_of_a_grant_is_a_grant_and_its_end_is_not() -> None:
    """Rule 9: taking away is refused to nobody."""
    before = settled([*FLEET, grant("g", "a", "bo")])
    longer = desired([*FLEET, grant("g", "a", "bo", expiresAt="2026-12-24T00:00:00Z")])
    assert refusal(planned("bo", longer, before)) == "role_cannot_grant"
    gone = planned("bo", desired(FLEET), before)
    assert [c.problem for c in gone.changes] == [None, None]
    assert {str(c.ref): c.action.value for c in gone.changes} == {
        "allocation/vision/a": "change",
        GRANT: "forget",
    }


@pytest.mark.parametrize(
    ("days", "code"),
    [(-1, "grant_expired"), (0, "grant_expired"), (1, ""), (30, ""), (31, "grant_too_long")],
)
def test_how_long_it_may_last(days: int, code: str) -> None:
    """F-GRT-05: a grant that is over when it is given is refused; so is one past the policy."""
    end = format_moment(NOW + timedelta(days=days))
    wanted = desired([*FLEET, grant("g", "a", "bo", expiresAt=end)])
    assert refusal(planned("ana", wanted)) == code


def test_the_policy_says_how_long() -> None:
    documents = [d for d in FLEET if d["kind"] != "Policy"]
    documents += [policy(grant={"maxDays": 2}), grant("g", "a", "bo")]
    assert refusal(planned("ana", desired(documents))) == "grant_too_long"


def test_an_old_grant_runs_out_without_a_word() -> None:
    """Over by time is no change of the file: nothing is refused, and its keys go."""
    end = format_moment(NOW + timedelta(hours=1))
    documents = [*FLEET, grant("g", "a", "bo", expiresAt=end)]
    made = make_plan(desired(documents), settled(documents), now=NOW + timedelta(hours=2))
    assert [(str(c.ref), c.problem) for c in made.changes] == [("allocation/vision/a", None)]
    assert [str(cause) for cause in made.changes[0].caused_by] == [GRANT]


@pytest.mark.parametrize(
    ("author", "access", "code"),
    [
        ("ana", ["bo"], ""),
        ("mia", ["bo"], ""),
        ("olga", ["bo"], ""),
        ("bo", ["bo"], ""),
        ("bo", ["ana", "bo"], "role_cannot_grant"),
        ("bo", ["ana"], "role_cannot_grant"),
        ("vic", ["vic"], "role_cannot_grant"),
        ("eve", ["bo"], "role_cannot_grant"),
        ("nobody-we-know", ["bo"], ""),
    ],
)
def test_access_is_a_grant(author: str, access: list[str], code: str) -> None:
    """ACC-02: by one rule; a member may use what they ask for, and lets in nobody else."""
    made = planned(author, desired([*FLEET, allocation("mine", access=access)]), settled(FLEET))
    problems = {str(c.ref): c.problem.code for c in made.changes if c.problem}
    assert problems == ({"allocation/vision/mine": code} if code else {})


def test_only_whom_a_change_adds_is_asked_of_it() -> None:
    """And taking away is refused to nobody."""
    before = settled([*FLEET, allocation("mine", access=["ana", "bo"])])
    for access, protect, code in (
        (["ana", "bo"], True, ""),
        (["bo"], False, ""),
        (["ana", "bo", "mia"], False, "role_cannot_grant"),
    ):
        wanted = desired([*FLEET, allocation("mine", access=access, protect=protect)])
        found = [c.problem.code for c in planned("bo", wanted, before).changes if c.problem]
        assert found == ([code] if code else [])
