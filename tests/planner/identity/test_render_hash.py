"""After an upgrade: what the program alone makes otherwise is told apart from people's changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler import shipped
from reconciler.model.canonical import digest
from reconciler.model.plan.plan import Cause, Plan, Risk
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.planner.identity.render_hash import basis_of, is_basis, is_rerendered
from tests.planner.fleet import allocation, base_fleet, desired, user
from tests.planner.nodes.test_prepare import as_prepared, fleet, host, observed
from tests.planner.walk import applied, line, make_plan, settled, told

PLAIN = [*base_fleet(2), *(allocation(f"a{number}", access=["ana"]) for number in range(3))]
NEW_KEYS = {"allocation/keys.j2": lambda text: "# of another version\n" + text}
NEW_COMMENT = {"allocation/keys.j2": lambda text: "{# says nothing to a host #}" + text}
NEW_WALLS = {"node/sshd.conf": lambda text: text + "# of another version\n"}


def templates(changes: dict[str, Callable[[str], str]]) -> dict[str, str]:
    given = dict(shipped.templates())
    for name, change in changes.items():
        assert name in given, sorted(given)
        given[name] = change(given[name])
    return given


def test_files_that_only_the_program_makes_otherwise() -> None:
    """Rule 21: spec and place are as they were, so the lines say that nobody changed anything."""
    state = settled(PLAIN, written_by="0.0.9")
    made = make_plan(desired(PLAIN), state, templates=templates(NEW_KEYS))
    assert told(made) == [f"change allocation/vision/a{number}" for number in range(3)]
    assert {(c.cause, c.risk, c.caused_by) for c in made.changes} == {
        (Cause.RERENDERED, Risk.SAFE, ())
    }
    assert {step.verb for step in made.steps} == {"access.sync"}
    assert made.written_by == "0.0.9"
    assert (
        told(make_plan(desired(PLAIN), applied(made, state), templates=templates(NEW_KEYS))) == []
    )


def test_what_people_change_is_told_as_ever() -> None:
    """Rule 21: a key that comes together with an upgrade is no re-rendering; others still are."""
    state = settled(PLAIN)
    wanted = [*PLAIN[:-1], allocation("a2", access=["bo"])]
    made = make_plan(desired(wanted), state, templates=templates(NEW_KEYS))
    assert [line(made, f"allocation/vision/a{n}").cause for n in range(3)] == [
        *(Cause.RERENDERED, Cause.RERENDERED),
        None,
    ]
    documents = [one for one in PLAIN if one["metadata"]["name"] != "ana"]
    more = make_plan(
        desired([*documents, user("ana", "laptop", "desk", "third")]),
        state,
        templates=templates(NEW_KEYS),
    )
    assert all(c.cause is None for c in more.changes)
    assert line(more, "allocation/vision/a0").caused_by == (Ref("user", "", "ana"),)


def test_a_key_that_was_revoked_meanwhile_is_no_rerendering() -> None:
    """Rule 9: a user applied by themselves leaves allocations behind; their line shuts them out."""
    state = settled(PLAIN)
    ref = Ref("user", "", "ana")
    changed = desired(
        [*(d for d in PLAIN if d["metadata"]["name"] != "ana"), user("ana", state="suspended")]
    )
    recorded = {**state.recorded}
    recorded[ref] = replace(recorded[ref], **_as(changed, ref))
    made = make_plan(changed, replace(state, recorded=recorded), templates=templates(NEW_KEYS))
    assert {c.cause for c in made.changes} == {None}
    assert len(made.steps) == 3


def _as(of: Any, ref: Ref) -> dict[str, Any]:
    resource = of.resources[ref]
    return {"normal": resource.normal, "digest": resource.digest}


def test_other_templates_of_the_same_text_change_nothing() -> None:
    """Rule 21: hosts are asked for nothing, and the next apply writes down what they are of."""
    state = settled(PLAIN)
    made = make_plan(desired(PLAIN), state, templates=templates(NEW_COMMENT))
    assert (made.changes, made.steps) == ((), ())
    assert [str(c.ref) for c in made.confirmed] == [f"allocation/vision/a{n}" for n in range(3)]
    assert all(c.basis != state.recorded[c.ref].basis for c in made.confirmed)


def test_what_is_in_doubt_and_shows_what_it_should_needs_nothing() -> None:
    """F-STA-11: after a restore the next plan is empty as far as hosts show what they should."""
    state = settled(PLAIN)
    doubted = {
        ref: replace(one, basis="") if one.id else one for ref, one in state.recorded.items()
    }
    seen = {
        name: replace(one, facts=replace(one.facts, paths=shown_on(state, name)))  # type: ignore[arg-type]
        for name, one in state.observations.items()
    }
    made = make_plan(desired(PLAIN), replace(state, recorded=doubted, observations=seen))
    assert (told(made), len(made.confirmed)) == ([], 3)
    blind = make_plan(desired(PLAIN), replace(state, recorded=doubted, observations={}))
    assert (len(blind.changes), len(blind.steps), blind.confirmed) == (3, 9, ())
    missing = {name: replace(one, facts=replace(one.facts, paths={})) for name, one in seen.items()}
    bare = make_plan(desired(PLAIN), replace(state, recorded=doubted, observations=missing))
    assert (len(bare.changes), len(bare.steps)) == (3, 9)


def shown_on(state: World, node: str) -> dict[str, str]:
    held = (one for one in state.recorded.values() if one.node == node)
    return {p: str(f) for one in held for p, f in one.facts.items() if f is not None}


class TestHosts:
    def inhabited(self) -> tuple[Any, World, Plan]:
        of = fleet(host("gpu01"), host("gpu02"), allocations=1)
        first = make_plan(of, observed(of))
        state = as_prepared(of, first)
        state = replace(state, claims=applied(first, observed(of)).claims)
        return of, state, make_plan(of, state, templates=templates(NEW_WALLS))

    def test_are_made_ready_anew_with_a_risk_where_somebody_lives(self) -> None:
        """Rule 21: nobody asked for it, so whoever runs unattended does not do it by themselves."""
        _, state, made = self.inhabited()
        (claim,) = state.claims
        lines = {c.ref.name: (c.cause, c.risk) for c in made.changes if c.ref.kind == "node"}
        empty = "gpu02" if claim.node == "gpu01" else "gpu01"
        assert lines == {
            claim.node: (Cause.RERENDERED, Risk.INTERRUPTS),
            empty: (Cause.RERENDERED, Risk.SAFE),
        }

    def test_are_held_where_the_consent_does_not_cover_it(self) -> None:
        """Rule 12: and nobody loses their place for it."""
        of, state, _ = self.inhabited()
        made = make_plan(of, state, templates=templates(NEW_WALLS), hold_above=Risk.SAFE)
        (claim,) = state.claims
        held = line(made, f"node/{claim.node}")
        assert held.problem is not None and held.problem.code == "held_for_approval"
        assert (held.cause, held.risk) == (Cause.RERENDERED, Risk.INTERRUPTS)
        assert {step.node for step in made.steps if step.verb == "node.prepare"} != {claim.node}
        assert claim.node not in {s.node for s in made.steps if s.verb == "node.prepare"}
        agreed = make_plan(of, state, templates=templates(NEW_WALLS), hold_above=Risk.INTERRUPTS)
        assert line(agreed, f"node/{claim.node}").problem is None

    def test_a_wall_that_fell_is_no_rerendering(self) -> None:
        """REL-03: what a host shows otherwise is put right as ever, upgrade or not."""
        of = fleet(host("gpu01"), allocations=0)
        state = as_prepared(of, make_plan(of, observed(of)), **{"sshd tenants": "passwords=yes"})
        made = make_plan(of, state)
        assert line(made, "node/gpu01").cause is None


@pytest.mark.parametrize(
    ("before", "after", "rerendered"),
    [
        ({"a": 1, "templates": 1}, {"a": 1, "templates": 2}, True),
        ({"a": 1, "walls": 1, "templates": 1}, {"a": 1, "walls": 2, "templates": 1}, True),
        ({"a": 1, "templates": 1}, {"a": 2, "templates": 2}, False),
        ({"a": 1, "templates": 1}, {"a": 2, "templates": 1}, False),
        ({"a": 1, "templates": 1}, {"a": 1, "templates": 1}, False),
    ],
)
def test_both_halves_of_a_basis(before: Any, after: Any, rerendered: bool) -> None:
    assert is_rerendered(basis_of(before), basis_of(after)) is rerendered


def test_a_basis_of_before_is_still_known() -> None:
    """Rule 21: what an earlier version recorded is no reason to touch a host."""
    made_from = {"a": 1, "templates": 1}
    assert is_basis(digest(made_from), basis_of(made_from), made_from)
    assert not is_basis("", basis_of(made_from), made_from)
    assert not is_rerendered(digest(made_from), basis_of({"a": 1, "templates": 2}))
    assert not is_rerendered("", basis_of(made_from))
