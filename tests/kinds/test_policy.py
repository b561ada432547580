"""Policy: one, called fleet, with the defaults that other kinds rely on."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reconciler.kinds.fleet_rules import DEFAULTS, policy_in
from reconciler.kinds.policy import FLEET, parse
from reconciler.kinds.registry import KINDS
from tests.kinds.sample import Fleet
from tests.test_architecture import MODULES, word

POLICY = "policy/fleet"


def test_a_good_policy_has_no_problem() -> None:
    assert Fleet().problems(POLICY) == []


def test_what_is_not_stated_has_a_default() -> None:
    policy = KINDS["policy"].parse({"tenants": ["b", "a"]}, "fleet")
    assert policy.tenants == ("a", "b")
    assert (policy.lease.default_hours, policy.lease.warn_hours) == (336, (168, 24, 1))
    assert (policy.guard.max_removals, policy.guard.max_removal_percent) == (5, 10)
    assert policy.approval.second_person_for == ("destroys",)
    assert policy.release.undo_minutes == 60
    assert policy.evidence.max_age_minutes == 60


def test_without_a_policy_every_rule_is_as_one_that_states_none() -> None:
    assert parse({"tenants": []}, FLEET) == DEFAULTS
    fleet = Fleet()
    fleet.remove(POLICY)
    assert policy_in(fleet.desired()) is DEFAULTS


def test_what_is_a_default_is_said_in_one_place() -> None:
    """Whoever asks for a rule gets it by one function, and needs no default of their own."""
    by_hand = re.compile(r"\bPOLICIES\.get\(|\bPolicySpec\(tenants|\bRef\(\"policy\"")
    found = {word(path) for path in MODULES if by_hand.search(path.read_text(encoding="utf-8"))}
    assert found == {"kinds/fleet_rules"}


def test_there_is_one() -> None:
    fleet = Fleet()
    fleet.add("policy/other", like=POLICY)
    assert fleet.only("policy/other").code == "policy_unsound"
    assert fleet.problems(POLICY) == []


def test_a_default_is_not_above_its_limit() -> None:
    fleet = Fleet()
    fleet[POLICY]["lease"] = {"defaultHours": 2, "maxHours": 1}
    assert fleet.only(POLICY).code == "lease_too_long"


def test_accepted_drift_ends() -> None:
    fleet = Fleet()
    drift = {"ref": "node/gpu01", "key": "os", "reason": "x", "owner": "olga"}
    fleet[POLICY]["acceptedDrift"] = [{**drift, "until": "2027-02-30T00:00:00Z"}]
    problem = fleet.only(POLICY)
    assert problem.code == "value_pattern"
    assert problem.source and problem.source.path[2] == "node/gpu01"
    (reference,) = KINDS["policy"].refs(fleet.resource(POLICY))
    assert str(reference.ref) == "user/olga"


WINDOW = {"name": "night", "from": "01:30", "to": "02:30", "timeZone": "UTC", "allow": "destroys"}
FREEZE = {
    "name": "year-end",
    "from": "2026-12-20T00:00:00+01:00",
    "until": "2027-01-04T00:00:00Z",
    "reason": "books",
}


def test_what_goes_alone_has_one_form() -> None:
    spec = {
        "windows": [{**WINDOW, "days": ["sun", "mon"]}, {**WINDOW, "name": "day"}],
        "freezes": [FREEZE],
        "rules": [{"allow": "none", "kinds": ["user", "node"]}, {"allow": "safe"}],
    }
    policy = KINDS["policy"].parse({"tenants": ["a"], "automation": spec}, "fleet")
    automation = policy.automation
    assert (automation.allow, [w.name for w in automation.windows]) == ("safe", ["day", "night"])
    assert automation.windows[1].days == ("mon", "sun")
    assert automation.freezes[0].from_ == "2026-12-19T23:00:00Z"
    assert [rule.allow for rule in automation.rules] == ["none", "safe"]
    assert automation.rules[0].kinds == ("node", "user")
    assert KINDS["policy"].parse({"tenants": ["a"]}, "fleet").automation.allow == "safe"


@pytest.mark.parametrize(
    ("automation", "code", "place"),
    [
        ({"windows": [{**WINDOW, "to": "01:30"}]}, "document_rejected", ("windows", "night", "to")),
        (
            {"windows": [{**WINDOW, "timeZone": "Mars/Olympus"}]},
            "value_pattern",
            ("windows", "night", "timeZone"),
        ),
        (
            {"freezes": [{**FREEZE, "until": "2026-02-30T00:00:00Z"}]},
            "value_pattern",
            ("freezes", "year-end", "until"),
        ),
        (
            {"freezes": [{**FREEZE, "until": "2026-12-19T23:00:00Z"}]},
            "document_rejected",
            ("freezes", "year-end", "until"),
        ),
        (
            {"rules": [{"allow": "none", "projects": ["visoin"]}]},
            "dangling_reference",
            ("rules", 0, "projects"),
        ),
    ],
)
def test_what_goes_alone_makes_sense(automation: Any, code: str, place: tuple[str, ...]) -> None:
    fleet = Fleet()
    fleet[POLICY]["automation"] = automation
    problem = fleet.only(POLICY)
    assert problem.code == code
    assert problem.is_error is (code != "dangling_reference")
    assert problem.source and problem.source.path == ("spec", "automation", *place)
