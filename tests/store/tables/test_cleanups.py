"""Cleanups: what a card uses when idle, and a word in the place of a proof."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import CheckResult, GpuFact, NodeFacts
from reconciler.model.problem import ProblemError
from reconciler.store.backup.maintenance import check
from reconciler.store.override import free_unproved
from reconciler.store.snapshot import read_world
from reconciler.store.tables import cleanups
from reconciler.store.tables.tenancies import tenancies
from tests.store.records import State, done, make_observation, make_recorded, ref
from tests.store.test_guards import FREE, add_event, refuses

CARD = GpuFact(
    uuid="GPU-0", pci_address="", model="", driver="570", processes=(), memory_used_mib=9
)
NODE = make_recorded(
    "x",
    ref=ref("node/gpu01"),
    id="",
    login="",
    node="",
    slots=(),
    shape=None,
    normal={"spec": {"slots": [{"name": f"s{n}", "gpu": {"uuid": f"GPU-{n}"}} for n in (0, 1)]}},
)


def observe(state: State, *cards: GpuFact) -> dict[tuple[str, str], int]:
    facts = NodeFacts(source="host", machine_id="m1", gpus=cards)
    state.journal.observe([make_observation(facts=facts)])
    return dict(read_world(state.database).idle_mib)


def blocked(state: State, name: str = "a", slot: str | None = "s0") -> None:
    state.hold(name, slot=slot)
    run = state.release(name)
    failed = state.prove(name, slot=slot, result=CheckResult.FAIL)
    state.journal.finish_wave(run, done(proofs=(failed,)), (), [ref(f"allocation/vision/{name}")])


def test_the_least_that_an_idle_card_used_is_kept_by_its_driver(state: State) -> None:
    """Isolation 9: never more than it was, whatever is left in there later."""
    state.journal.record(state.run(), [NODE])
    assert observe(state, CARD) == {("GPU-0", "570"): 9}
    assert observe(state, replace(CARD, memory_used_mib=800)) == {("GPU-0", "570"): 9}
    assert observe(state, replace(CARD, memory_used_mib=4)) == {("GPU-0", "570"): 4}
    newer = replace(CARD, driver="580", memory_used_mib=600)
    assert observe(state, newer)[("GPU-0", "580")] == 600


@pytest.mark.parametrize(
    "card",
    [
        replace(CARD, processes=(7,)),
        replace(CARD, processes=None),
        replace(CARD, memory_used_mib=None),
        replace(CARD, driver=None),
    ],
)
def test_what_is_not_known_to_be_idle_is_no_baseline(state: State, card: GpuFact) -> None:
    state.journal.record(state.run(), [NODE])
    assert observe(state, card) == {}


def test_what_a_tenant_uses_is_never_idle(state: State) -> None:
    """REL-02: from their claim to their proof, also while that is blocked."""
    state.journal.record(state.run(), [NODE])
    blocked(state)
    other = replace(CARD, uuid="GPU-1")
    assert observe(state, CARD, other) == {("GPU-1", "570"): 9}


@pytest.mark.parametrize(("mib", "taken"), [(0, False), (70_000, True)])
def test_nobody_says_what_the_card_of_another_node_uses(
    state: State, mib: int, taken: bool
) -> None:
    """Of too little no release there could be proved, and with too much every one."""
    state.journal.record(state.run(), [NODE])
    known = {} if taken else observe(state, CARD)
    if taken:
        state.hold("a")
    facts = NodeFacts(source="host", gpus=(replace(CARD, memory_used_mib=mib),))
    state.journal.observe([make_observation("gpu02", facts=facts)])
    assert read_world(state.database).idle_mib == known


def test_what_was_seen_before_a_node_was_anybodys_counts(state: State) -> None:
    """It is looked at first, and recorded when it has been prepared."""
    assert observe(state, CARD, replace(CARD, uuid="GPU-9")) == {}
    state.journal.record(state.run(), [NODE])
    assert read_world(state.database).idle_mib == {("GPU-0", "570"): 9}


def test_drivers_without_end_are_forgotten(state: State) -> None:
    state.journal.record(state.run(), [NODE])
    for number in range(20):
        known = observe(state, replace(CARD, driver=f"5{number:02}"))
    assert len(known) == 16 and ("GPU-0", "519") in known


def test_a_claim_knows_its_machine(state: State) -> None:
    """Rule 3: on which machine it was made, for whoever had root there."""
    observe(state)
    state.hold("a")
    (claim,) = read_world(state.database).claims
    assert claim.machine_id == "m1"


def test_a_word_frees_what_is_blocked_and_stays(state: State) -> None:
    """REL-03, REL-04: with its author and reason, marked on the place, in the chain of events."""
    blocked(state)
    (claim,) = read_world(state.database).claims
    state.journal.enter("override", free_unproved, [claim], "disk was shredded")
    world = read_world(state.database)
    assert world.claims == () and ref("allocation/vision/a") not in world.recorded
    (word,) = world.overrides
    assert (word.node, word.slot, word.actor, word.reason) == (
        "gpu01", "s0", "ana", "disk was shredded",
    )  # fmt: skip
    assert check(state.path) == ()
    state.hold("b")
    first, second = tenancies(state.database, "gpu01", "s0")
    assert (first.state, first.actor, first.freed_by) == ("freed", "ana", "")
    assert [tried.passed for tried in first.tried] == [False]
    assert (second.state, second.tried) == ("held", ())
    assert read_world(state.database).overrides == (word,)


def test_one_that_is_not_blocked_keeps_all_of_them(state: State) -> None:
    """REL-03: a word frees everything that it is about, or nothing."""
    blocked(state)
    (claim,) = read_world(state.database).claims
    other = replace(claim, id="claim-other", state=ClaimState.RELEASING)
    with pytest.raises(ProblemError):
        state.journal.enter("override", free_unproved, [claim, other], "why")
    assert state.claim_states() == {"claim-a": "cleanup_blocked"}


@pytest.mark.parametrize("live", ["held", "releasing"])
def test_nothing_but_a_blocked_cleanup_is_overridden(state: State, live: str) -> None:
    """REL-03: neither by the journal nor by a shell."""
    state.hold("a")
    if live == "releasing":
        state.release("a")
    (claim,) = read_world(state.database).claims
    with pytest.raises(ProblemError) as caught:
        state.journal.enter("override", free_unproved, [claim], "why")
    assert caught.value.problems[0].code == "state_guard"
    raw = state.raw()
    event = add_event(raw, "overridden", "allocation/vision/a", "why")
    insert = "INSERT INTO override VALUES ('o', 'claim-a', 'eve', 'why', 't', ?)"
    assert "only a blocked cleanup" in refuses(raw, insert, event)
    assert refuses(raw, FREE, None, "claim-a")
    raw.close()
    assert state.claim_states() == {"claim-a": live}


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE idle_memory SET mib = 9000",
        "INSERT OR REPLACE INTO idle_memory VALUES ('GPU-0', '570', 9000, 't')",
        "UPDATE claim_machine SET machine_id = 'other'",
        "DELETE FROM claim_machine",
    ],
)
def test_what_proofs_are_held_against_is_not_bent(state: State, sql: str) -> None:
    state.journal.record(state.run(), [NODE])
    observe(state, CARD)
    state.hold("a")
    raw = state.raw()
    assert refuses(raw, sql)
    raw.close()


def test_a_chain_tells_who_had_the_whole_node_as_well(state: State) -> None:
    state.hold("a", slot=None)
    run = state.release("a")
    state.journal.finish_wave(
        run, done(proofs=(state.prove("a", slot=None),)), (), [ref("allocation/vision/a")]
    )
    state.hold("b", slot="s1")
    told = [(one.ref, bool(one.freed_by)) for one in tenancies(state.database, "gpu01", "s0")]
    assert told == [("allocation/vision/a", True)]
    assert len(tenancies(state.database, "gpu01")) == 2


@pytest.mark.parametrize("query", [cleanups.FREE, cleanups.NEVER_TAKEN])
def test_who_has_a_slot_is_asked_by_an_index(raw: sqlite3.Connection, query: str) -> None:
    """Else each node that is recorded would cost as much as all claims there have ever been."""
    rows = raw.execute(f"EXPLAIN QUERY PLAN {query}", ("gpu01",)).fetchall()
    of_claims = [row[3] for row in rows if "claim" in row[3]]
    assert of_claims and all("USING" in step and "node=?" in step for step in of_claims), rows
