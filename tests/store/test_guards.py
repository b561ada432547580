"""The guards in SQL, attacked with raw SQL: each must hold where the code above is wrong."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.host.evidence import CheckResult
from reconciler.model.plan.plan import Order
from reconciler.model.plan.work import WaveIntent
from reconciler.model.problem import ProblemError
from tests.store.records import (
    State,
    done,
    make_claim,
    make_recorded,
    make_step,
    ref,
)

CLAIM = (
    "{verb} INTO claim (id, allocation_id, ref, node, slot, shape, state, since, tenant, project,"
    " event) VALUES (?, ?, ?, ?, ?, ?, ?, 't', '', '', ?)"
)
PROOF = (
    "{verb} INTO proof (id, allocation_id, node, slot, at, boot_id, checks, source, passed, event)"
    " VALUES (?, ?, ?, ?, 't', 'b', ?, 'host', ?, ?)"
)
PASSED = json.dumps([{"name": "home_gone", "result": "pass"}])
FREE = "UPDATE claim SET state = 'freed', freed_at = 't', proof = ? WHERE id = ?"
INSERTS = ("INSERT", "INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE")


@pytest.fixture(params=["as a shell opens it", "with nothing but triggers"])
def attacker(state: State, request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """Connections that nobody has set up, or that were weakened as far as SQLite allows."""
    with closing(state.raw()) as connection:
        if request.param == "with nothing but triggers":
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA ignore_check_constraints = ON")
        assert connection.execute("PRAGMA recursive_triggers").fetchone() == (0,)
        yield connection


def refuses(connection: sqlite3.Connection, sql: str, *values: Any) -> str:
    with pytest.raises(sqlite3.IntegrityError) as caught:
        connection.execute(sql, values)
    return str(caught.value)


def add_event(
    connection: sqlite3.Connection, type_: str, about: str, reason: str = "", actor: str = "eve"
) -> int:
    """An event as only the journal should write it; its digest is wrong, which `check` finds."""
    connection.execute(
        "INSERT INTO event SELECT max(sequence) + 1, 't', ?, ?, ?, '', NULL, NULL, ?, '', 'x'"
        " FROM event",
        (type_, actor, about, reason),
    )
    sequence: int = connection.execute("SELECT max(sequence) FROM event").fetchone()[0]
    return sequence


def claim_row(
    connection: sqlite3.Connection, name: str, node: str, slot: str | None, state: str = "held"
) -> tuple[Any, ...]:
    about = f"allocation/vision/{name}"
    shape = "gpu_slice" if slot else "baremetal"
    event = add_event(connection, "claimed", about)
    return (f"claim-{name}", f"id-{name}", about, node, slot, shape, state, event)


@pytest.mark.parametrize("verb", INSERTS)
@pytest.mark.parametrize(
    ("held", "wanted", "words"),
    [
        (("gpu01", "s0"), ("gpu01", "s0"), "the slot has a live claim"),
        (("gpu01", None), ("gpu01", None), "the node is claimed whole"),
        (("gpu01", None), ("gpu01", "s0"), "the node is claimed whole"),
        (("gpu01", "s0"), ("gpu01", None), "slots of the node have live claims"),
    ],
)
def test_one_holder_a_place(
    state: State,
    attacker: sqlite3.Connection,
    verb: str,
    held: tuple[str, str | None],
    wanted: tuple[str, str | None],
    words: str,
) -> None:
    """PLC-06 PLC-07 F-PLC-01: a slot or node with a live claim takes no other, both directions."""
    state.hold("a", *held)
    row = claim_row(attacker, "b", *wanted)
    assert words in refuses(attacker, CLAIM.format(verb=verb), *row)
    assert state.claim_states() == {"claim-a": "held"}


@pytest.mark.parametrize("live", ["held", "releasing", "cleanup_blocked"])
def test_every_live_state_holds(state: State, live: str) -> None:
    """PLC-06: what is being released, or could not be cleaned, is not free."""
    state.hold("a")
    if live != "held":
        run = state.release("a")
        if live == "cleanup_blocked":
            failed = state.prove("a", result=CheckResult.UNKNOWN)
            state.journal.finish_wave(run, done(proofs=(failed,)))
    assert state.claim_states() == {"claim-a": live}
    with pytest.raises(ProblemError) as caught:
        state.journal.begin_wave(state.run(), WaveIntent(claims=(make_claim("b"),)))
    assert caught.value.problems[0].code == "state_guard"


def test_unique_index_stands_behind_the_triggers(state: State, raw: sqlite3.Connection) -> None:
    """PLC-06: with every trigger dropped, the index still refuses a second live claim."""
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    state.hold("a", "gpu01", "s0")
    state.hold("whole", "gpu02", None)
    for name, node, slot in (("b", "gpu01", "s0"), ("c", "gpu02", None)):
        row = claim_row(raw, name, node, slot)
        assert "UNIQUE" in refuses(raw, CLAIM.format(verb="INSERT"), *row)


@pytest.mark.parametrize("verb", INSERTS)
def test_a_claim_is_never_written_over(
    state: State, attacker: sqlite3.Connection, verb: str
) -> None:
    """PLC-06: INSERT OR REPLACE fires no DELETE trigger, and still cannot push a claim out."""
    state.hold("a", "gpu01", "s0")
    row = claim_row(attacker, "a", "gpu09", "s7")
    assert "never written over" in refuses(attacker, CLAIM.format(verb=verb), *row)
    assert state.rows("SELECT node, slot FROM claim") == [("gpu01", "s0")]


@pytest.mark.parametrize("born", ["freed", "releasing", "cleanup_blocked"])
def test_a_claim_begins_held(state: State, attacker: sqlite3.Connection, born: str) -> None:
    """PLC-06: no claim is born in another state."""
    row = claim_row(attacker, "b", "gpu01", "s0", born)
    assert "begins as held" in refuses(attacker, CLAIM.format(verb="INSERT"), *row)


def test_a_claim_needs_its_event(state: State, attacker: sqlite3.Connection) -> None:
    """PLC-06: no claim without an event of that ref that says so."""
    row = list(claim_row(attacker, "b", "gpu01", "s0"))
    row[2] = "allocation/vision/other"
    assert "an event that says so" in refuses(attacker, CLAIM.format(verb="INSERT"), *row)


@pytest.mark.parametrize("verb", ["UPDATE", "UPDATE OR REPLACE"])
@pytest.mark.parametrize(
    "change",
    [
        "id = 'claim-b'",
        "node = 'gpu09'",
        "slot = 's1'",
        "slot = NULL, shape = 'baremetal'",
        "allocation_id = 'id-b'",
        "since = '2020'",
        "event = 1",
    ],
)
def test_a_claim_never_moves(
    state: State, attacker: sqlite3.Connection, verb: str, change: str
) -> None:
    """PLC-06: UPDATE OR REPLACE cannot move one claim onto another and push that out."""
    state.hold("a", "gpu01", "s0")
    state.hold("b", "gpu01", "s1")
    assert refuses(attacker, f"{verb} claim SET {change} WHERE id = 'claim-a'")
    assert state.claim_states() == {"claim-a": "held", "claim-b": "held"}


def test_claims_proofs_and_events_are_never_deleted(
    state: State, attacker: sqlite3.Connection
) -> None:
    """REL-03: what happened stays, whatever somebody types into a shell."""
    state.hold("a")
    run = state.release("a")
    state.journal.finish_wave(run, done(proofs=(state.prove("a"),)))
    for table in ("claim", "proof", "event", "state", "login", "incarnation", "usage_record"):
        before = state.rows(f"SELECT * FROM {table}")
        assert before, table
        assert refuses(attacker, f"DELETE FROM {table}")
        assert state.rows(f"SELECT * FROM {table}") == before


class TestEnd:
    """REL-03: a claim ends only by a passed proof of its own, or by somebody's recorded word."""

    def test_not_without_a_proof(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: no proof, no end."""
        state.hold("a")
        state.release("a")
        assert "passed proof" in refuses(attacker, FREE, None, "claim-a")
        assert "passed proof" in refuses(attacker, FREE, "proof-of-nothing", "claim-a")

    def test_not_by_a_failed_proof(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: a proof that did not pass frees nothing."""
        state.hold("a")
        run = state.release("a")
        for result in (CheckResult.FAIL, CheckResult.UNKNOWN):
            state.journal.finish_wave(run, done(proofs=(state.prove("a", result=result),)))
            assert "passed proof" in refuses(attacker, FREE, f"proof-{state.proofs}", "claim-a")

    def test_not_by_the_proof_of_another(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: neither a neighbour's proof nor one of another node is one of this claim."""
        state.hold("a", "gpu01", "s0")
        state.hold("b", "gpu01", "s1")
        state.release("a")
        run = state.release("b")
        state.journal.finish_wave(run, done(proofs=(state.prove("b", slot="s1"),)))
        assert "passed proof" in refuses(attacker, FREE, "proof-1", "claim-a")
        state.journal.finish_wave(run, done(proofs=(state.prove("a", node="gpu07"),)))
        assert "passed proof" in refuses(attacker, FREE, "proof-2", "claim-a")
        assert state.claim_states() == {"claim-a": "releasing", "claim-b": "freed"}

    def test_not_by_an_older_proof(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: a proof from before the claim says nothing about what came after."""
        event = add_event(attacker, "proved", "allocation/vision/a")
        values = ("early", "id-a", "gpu01", "s0", PASSED, 1, event)
        attacker.execute(PROOF.format(verb="INSERT"), values)
        state.journal.begin_wave(state.run(), WaveIntent(claims=(make_claim("a"),)))
        state.release("a")
        assert "passed proof" in refuses(attacker, FREE, "early", "claim-a")

    def test_not_while_held(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: even with a proof, what nobody gave up is not taken."""
        state.hold("a")
        event = add_event(attacker, "proved", "allocation/vision/a")
        values = ("p", "id-a", "gpu01", "s0", PASSED, 1, event)
        attacker.execute(PROOF.format(verb="INSERT"), values)
        assert "released before it is freed" in refuses(attacker, FREE, "p", "claim-a")

    def test_final(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: a freed claim never lives again, nor changes."""
        state.hold("a")
        run = state.release("a")
        state.journal.finish_wave(run, done(proofs=(state.prove("a"),)))
        for change in ("state = 'held', freed_at = NULL, proof = NULL", "problem = 'x'"):
            assert "never changes again" in refuses(attacker, f"UPDATE claim SET {change}")

    def test_by_override(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03 REL-04: an override needs an actor, a reason and an event that names both."""
        state.hold("a")
        state.release("a")
        insert = "INSERT INTO override VALUES (?, 'claim-a', ?, ?, 't', ?)"
        event = add_event(attacker, "overridden", "allocation/vision/a", "disk was shredded")
        early = refuses(attacker, insert, "o1", "eve", "disk was shredded", event)
        assert "only a blocked cleanup" in early
        attacker.execute("UPDATE claim SET state = 'cleanup_blocked', problem = 'x'")
        for actor, reason in ((" ", "why"), ("eve", "")):
            blank = add_event(attacker, "overridden", "allocation/vision/a", reason, actor)
            words = refuses(attacker, insert, "o1", actor, reason, blank)
            assert "actor and a reason" in words
        assert "event that says so" in refuses(attacker, insert, "o1", "eve", "another", event)
        attacker.execute(insert, ("o1", "eve", "disk was shredded", event))
        both = "UPDATE claim SET state = 'freed', freed_at = 't', override = 'o1', proof = 'p'"
        assert "passed proof or a recorded override" in refuses(attacker, both)
        attacker.execute("UPDATE claim SET state = 'freed', freed_at = 't', override = 'o1'")
        assert "never changes" in refuses(attacker, "UPDATE override SET reason = 'x'")
        assert "never deleted" in refuses(attacker, "DELETE FROM override")
        assert state.claim_states() == {"claim-a": "freed"}

    def test_a_freed_slot_is_free(self, state: State) -> None:
        """REL-03 PLC-06: after the proof, and only then, somebody else may have the slot."""
        state.hold("a")
        run = state.release("a")
        step = make_step("a", order=Order.RETIRE)
        state.journal.finish_wave(run, done(step, proofs=(state.prove("a"),)))
        state.hold("b")
        assert state.claim_states() == {"claim-a": "freed", "claim-b": "held"}


class TestProof:
    @pytest.mark.parametrize(
        "checks",
        [
            [],
            [{"name": "a", "result": "fail"}],
            [{"name": "a", "result": "pass"}, {"name": "b", "result": "unknown"}],
            [{"name": "a"}],
            [{"name": "a", "result": None}],
        ],
    )
    def test_honest(self, state: State, attacker: sqlite3.Connection, checks: list[Any]) -> None:
        """REL-03: `passed` is what the checks say; nobody can claim it."""
        event = add_event(attacker, "proved", "allocation/vision/a")
        values = ("p", "id-a", "gpu01", "s0", json.dumps(checks), 1, event)
        assert "when all of its checks do" in refuses(
            attacker, PROOF.format(verb="INSERT"), *values
        )

    @pytest.mark.parametrize("verb", INSERTS)
    def test_never_written_over(
        self, state: State, attacker: sqlite3.Connection, verb: str
    ) -> None:
        """REL-03: a failed proof cannot be replaced by a passed one of the same id."""
        state.hold("a")
        run = state.release("a")
        failed = state.prove("a", result=CheckResult.FAIL)
        state.journal.finish_wave(run, done(proofs=(failed,)))
        event = add_event(attacker, "proved", "allocation/vision/a")
        values = (failed.id, "id-a", "gpu01", "s0", PASSED, 1, event)
        assert "never written over" in refuses(attacker, PROOF.format(verb=verb), *values)
        assert "never changes" in refuses(attacker, "UPDATE proof SET passed = 1")
        assert state.rows("SELECT passed FROM proof") == [(0,)]

    def test_needs_its_event(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: a proof nobody heard of is none."""
        values = ("p", "id-a", "gpu01", "s0", PASSED, 1, 1)
        assert "event that says so" in refuses(attacker, PROOF.format(verb="INSERT"), *values)


@pytest.mark.parametrize("verb", INSERTS)
@pytest.mark.parametrize("sequence", [1, 3, 99, 0, -1])
def test_events_follow_one_another(
    state: State, attacker: sqlite3.Connection, verb: str, sequence: int
) -> None:
    """F-STA-03: an event is neither written over, nor put in between, nor left out."""
    state.hold("a")
    insert = f"{verb} INTO event VALUES (?, 't', 'x', 'eve', '', '', NULL, NULL, '', '', 'd')"
    assert "follow one another" in refuses(attacker, insert, sequence)


@pytest.mark.parametrize("verb", ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"])
def test_events_never_change(state: State, attacker: sqlite3.Connection, verb: str) -> None:
    """F-STA-03: not a word of an event can be changed."""
    state.hold("a")
    assert "never changes" in refuses(attacker, f"{verb} event SET actor = 'nobody'")
    assert "never changes" in refuses(attacker, f"{verb} event SET sequence = 1 WHERE sequence = 2")


class TestResource:
    def test_not_emptied_by_hand(self, state: State, attacker: sqlite3.Connection) -> None:
        """F-STA-02: deleting a table's rows is refused; it would read as a fleet that never was."""
        state.journal.record(
            state.run(), [make_recorded("x", ref=ref("sku/small"), id="", login="", shape=None)]
        )
        assert "an event that says so" in refuses(attacker, "DELETE FROM resource")
        assert len(state.journal.world().recorded) == 1

    def test_stays_with_its_claims(self, state: State, attacker: sqlite3.Connection) -> None:
        """REL-03: even with an event, a resource whose slots are not proved clean stays."""
        state.hold("a")
        add_event(attacker, "forgotten", "allocation/vision/a")
        assert "live claims" in refuses(attacker, "DELETE FROM resource")

    @pytest.mark.parametrize(
        "theft",
        [
            "INSERT OR REPLACE INTO resource (rowid, ref, kind, project, name, digest, basis, file,"
            ' "commit", applied_at, generation, phase, protect, id, login, node, slots, problem,'
            " normal, facts) SELECT rowid, 'sku/other', kind, project, name, digest, basis, file,"
            ' "commit", applied_at, generation, phase, protect, id, login, node, slots, problem,'
            " normal, facts FROM resource LIMIT 1",
            "UPDATE OR REPLACE resource SET rowid = 1 WHERE rowid = 2",
            "UPDATE OR REPLACE resource SET ref = 'allocation/vision/a' WHERE rowid = 2",
        ],
    )
    def test_keeps_its_place(self, state: State, attacker: sqlite3.Connection, theft: str) -> None:
        """F-STA-02: no row is pushed out by another that takes its rowid or name."""
        state.hold("a", slot="s0")
        state.hold("b", slot="s1")
        assert "place of another" in refuses(attacker, theft)
        assert len(state.rows("SELECT * FROM resource")) == 2


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("INSERT OR REPLACE INTO state VALUES (1, 'other', 't')", "one identity"),
        ("UPDATE state SET state_id = 'other'", "never changes"),
        ("INSERT OR REPLACE INTO incarnation VALUES ('allocation/vision/a', 1)", "again"),
        ("UPDATE incarnation SET count = count - 1", "again"),
        ("INSERT OR REPLACE INTO login VALUES ('a-k7q2', 'id-b', 'r', 't')", "given again"),
        ("UPDATE login SET login = 'free-now'", "given again"),
        ("UPDATE usage_record SET gpus = 0, ended = 't'", "only ends"),
        ("UPDATE usage_record SET price_per_gpu_hour = '0', ended = 't'", "only ends"),
        (
            "INSERT OR REPLACE INTO usage_record SELECT allocation_id, started, 't', ref, tenant,"
            " project, node, shape, 0, '0', currency FROM usage_record",
            "never written over",
        ),
    ],
)
def test_counted_once_and_for_all(
    state: State, attacker: sqlite3.Connection, sql: str, words: str
) -> None:
    """PLC-06: identity, ids, logins and use are never given or counted again."""
    state.hold("a")
    assert words in refuses(attacker, sql)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("INSERT OR REPLACE INTO lease VALUES ('id-new', 'later')", "begins once"),
        ("UPDATE lease SET since = 'later'", "never changes"),
        ("DELETE FROM lease", "never deleted"),
    ],
)
def test_a_lease_begins_once(
    state: State, attacker: sqlite3.Connection, sql: str, words: str
) -> None:
    state.hold("a", slot="s0")
    new = replace(make_claim("a", slot="s1"), id="claim-new", allocation_id="id-new")
    state.journal.begin_wave(state.run(), WaveIntent(steps=(make_step("a"),), claims=(new,)))
    assert len(state.rows("SELECT * FROM lease")) == 1
    assert words in refuses(attacker, sql)
