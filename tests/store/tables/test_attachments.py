"""Attachments, written: no more than may be, from before a host is touched until it is shown."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from reconciler.model.host.evidence import CheckResult
from reconciler.model.plan.plan import Order
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.problem import ProblemError
from reconciler.model.state.event import EventType
from reconciler.model.state.volume import Joining
from reconciler.model.state.world import Recorded
from reconciler.store import queries
from reconciler.store.backup import maintenance
from reconciler.store.override import free_unproved
from reconciler.store.snapshot import read_world
from reconciler.store.tables import attachments
from tests.store.durable import (
    DATA,
    asking,
    attach,
    begin,
    detach,
    ended,
    having,
    make_attachment,
    make_volume,
    recorded,
)
from tests.store.records import State, done, make_recorded, make_step, ref

SHARING = [
    ("single_writer", "rw", "rw", False),
    ("single_writer", "rw", "ro", False),
    ("single_writer", "ro", "ro", False),
    ("multi_reader", "ro", "ro", True),
    ("multi_reader", "rw", "ro", True),
    ("multi_reader", "ro", "rw", True),
    ("multi_reader", "rw", "rw", False),
    ("multi_writer", "rw", "rw", True),
]
"""Access mode, mode of who has it, mode of who comes, and whether they may."""

HELD = ("id-a", "rw", "/data")


@pytest.fixture
def held(state: State) -> State:
    """An allocation that is active and has its volume."""
    recorded(state)
    state.hold("a")
    attach(state, make_attachment())
    return state


@pytest.mark.parametrize(("access", "has", "comes", "may"), SHARING)
def test_who_may_have_it_beside_whom(
    state: State, access: str, has: str, comes: str, may: bool
) -> None:
    """STO-04 F-STO-04: on one node or on two, when it is written down and by statement."""
    one = make_attachment("a", mode=has, access=access)
    attach(state, one)
    for node in ("gpu01", "gpu02"):
        other = make_attachment("b", mode=comes, access=access, node=node)
        if may:
            attach(state, other)
            assert len(having(state)) == 2
            detach(state, other)
        else:
            with pytest.raises(ProblemError) as caught:
                attach(state, other)
            assert caught.value.problems[0].code == "state_guard"
            assert len(having(state)) == 1
    assert maintenance.check(state.path) == ()


def test_what_is_written_is_read(held: State) -> None:
    """STO-02 STO-11: of its own name, with when it began."""
    (one,) = read_world(held.database).attachments
    assert one == make_attachment(since=one.since)
    assert one.since > "2026-11-01"


def test_it_counts_from_the_intent_on(state: State) -> None:
    """F-STO-04: a crash before the first host has heard of it takes nothing from it."""
    begin(state, make_attachment())
    with pytest.raises(ProblemError, match="has a writer"):
        begin(state, make_attachment("b"))


class TestEnds:
    def test_by_a_detach_that_was_shown(self, held: State) -> None:
        """STO-03 STO-10: and by none that failed."""
        detach(held, make_attachment(), ok=False)
        assert having(held) == [HELD]
        detach(held, make_attachment())
        assert having(held) == []
        (row,) = queries.projected(held.database, "attachment")
        assert (row["ended_by"], row["mode"]) == ("detach", "rw")
        attach(held, make_attachment("b"))
        assert having(held) == [("id-b", "rw", "/data")]

    @pytest.mark.parametrize(("result", "left"), [("pass", []), ("unknown", [HELD])])
    def test_by_the_proof_that_frees_its_allocation(
        self, held: State, result: str, left: list[Any]
    ) -> None:
        run = held.release("a")
        proof = held.prove("a", result=CheckResult(result))
        held.journal.finish_wave(run, done(proofs=(proof,)), (), [ref("allocation/vision/a")])
        assert having(held) == left

    def test_not_by_somebodys_word_about_its_place(self, held: State) -> None:
        """F-STO-04: who says that a slot is clean says nothing about who writes to a volume."""
        failed = held.prove("a", result=CheckResult.FAIL)
        held.journal.finish_wave(held.release("a"), done(proofs=(failed,)))
        held.journal.enter(
            "override", free_unproved, read_world(held.database).claims, "looked at it"
        )
        assert (held.claim_states(), having(held)) == ({"claim-a": "freed"}, [HELD])

    def test_by_somebodys_word_about_itself(self, held: State) -> None:
        """F-STO-04 STO-10: with actor and reason, and for good."""
        held.journal.enter(
            "fence", attachments.fence, read_world(held.database).attachments, "its host has burnt"
        )
        world = read_world(held.database)
        assert (world.attachments, world.volumes[DATA].fenced) == ((), ("id-a",))
        said = [e for e in queries.events(held.database, str(DATA)) if e.type is EventType.FENCED]
        assert [(e.actor, e.reason) for e in said] == [("ana", "its host has burnt")]
        with pytest.raises(ProblemError, match="cut off from the volume"):
            attach(held, make_attachment())
        attach(held, make_attachment("b"))

    def test_a_word_about_nobody_is_none(self, held: State) -> None:
        held_by = read_world(held.database).attachments
        detach(held, make_attachment())
        with pytest.raises(ProblemError, match="only who is attached"):
            held.journal.enter("fence", attachments.fence, held_by, "too late")


class TestChanged:
    def test_who_is_to_write_counts_as_a_writer_at_once(self, state: State) -> None:
        attach(state, make_attachment(mode="ro", access="multi_reader"))
        run, steps = begin(state, make_attachment(mode="rw", access="multi_reader"))
        assert having(state) == [HELD]
        state.journal.finish_wave(run, ended(steps, ok=False))
        assert having(state) == [HELD], "its host may have done it for all that is known"

    def test_who_is_to_write_no_more_is_a_writer_until_it_is_shown(self, state: State) -> None:
        attach(state, make_attachment(access="multi_reader"))
        run, steps = begin(state, make_attachment(mode="ro", access="multi_reader"))
        assert having(state) == [HELD]
        state.journal.finish_wave(run, ended(steps, ok=True))
        assert having(state) == [("id-a", "ro", "/data")]

    def test_a_place_ends_when_it_was_shown_to_be_left(self, held: State) -> None:
        """Both are counted between: what is not seen to be gone is there."""
        moved = make_attachment(mount_path="/mnt/data")
        attach(held, moved)
        assert having(held) == [HELD, ("id-a", "rw", "/mnt/data")]
        detach(held, make_attachment())
        assert having(held) == [("id-a", "rw", "/mnt/data")]

    @pytest.mark.parametrize("ok", [True, False])
    def test_detached_and_attached_in_one_wave_it_stays(self, held: State, ok: bool) -> None:
        one = make_attachment()
        run, steps = held.run(), [asking("detach", one), asking("attach", one)]
        held.journal.begin_wave(run, WaveIntent(steps=tuple(steps)))
        both = (*ended(steps[:1], ok=True).steps, *ended(steps[1:], ok=ok).steps)
        held.journal.finish_wave(run, WaveOutcome(steps=both))
        assert having(held) == [HELD]

    def test_it_goes_by_the_name_of_its_allocation_of_now(self, held: State) -> None:
        """A detach under the new name ends what began under the old one.

        F-STO-03: on its host it stands by the name that the storage had, until it was let go of.
        """
        a, b = ref("allocation/vision/a"), ref("allocation/vision/b")
        other = ref("storage/vision/other")
        held.journal.record(
            held.run(), renamed=[(a, renamed(held, b)), (DATA, renamed(held, other))]
        )
        (one,) = read_world(held.database).attachments
        assert (one.ref, one.storage) == (b, DATA)
        detach(held, one)
        assert having(held) == []


def renamed(state: State, to: Any) -> Recorded:
    former = "allocation/vision/a" if to.kind == "allocation" else str(DATA)
    one = read_world(state.database).recorded[ref(former)]
    return make_recorded(
        "a",
        ref=to,
        normal=dict(one.normal),
        digest=one.digest,
        id=one.id,
        login=one.login,
        shape=one.shape,
    )


COLUMNS = (
    "event, allocation_id, volume, ref, storage, node, mode, access, mount_path, since, ended,"
    " run, step, proof, fence"
)


@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("event, 'id-b', volume, ref, storage, node, mode, access", "written over|has a writer"),
        ("{new}, 'id-b', volume, ref, storage, node, mode, access", "has a writer"),
        ("{new}, 'id-b', volume, ref, storage, node, mode, 'multi_writer'", "has a writer"),
        ("{new}, allocation_id, volume, ref, storage, node, mode, access", "never written over"),
        ("1, 'id-b', volume, ref, storage, node, 'ro', access", "says so|has a writer"),
        ("{new}, 'id-b', 'none', ref, storage, node, mode, access", "no such volume"),
    ],
)
def test_what_no_statement_writes(
    held: State, raw: sqlite3.Connection, verb: str, row: str, words: str
) -> None:
    """STO-04 F-STO-04: a second writer is refused even where the code above is wrong."""
    raw.execute("PRAGMA foreign_keys = OFF")
    raw.execute("PRAGMA ignore_check_constraints = ON")
    (new,) = raw.execute("SELECT max(sequence) + 1 FROM event").fetchone()
    raw.execute(
        "INSERT INTO event VALUES (?, 't', 'attaching', 'eve', 'allocation/vision/a', '', NULL,"
        " NULL, '', '', 'x')",
        (new,),
    )
    rest = "mount_path, since, '', NULL, NULL, NULL, NULL FROM attachment"
    with pytest.raises(sqlite3.IntegrityError, match=words):
        raw.execute(f"{verb} INTO attachment ({COLUMNS}) SELECT {row.format(new=new)}, {rest}")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ended = 't'", "shown, proved or sworn|has an end"),
        ("ended = 't', run = 'run-000001', step = 'no'", "shown, proved or sworn"),
        ("ended = 't', run = 'run-000002', step = 'provide-a-gpu01'", "shown, proved or sworn"),
        ("ended = 't', proof = 'no'", "shown, proved or sworn"),
        ("ended = 't', fence = 1", "shown, proved or sworn"),
        ("step = 'x', run = 'y'", "shown, proved or sworn|has an end"),
        ("node = 'gpu02'", "never moves"),
        ("volume = 'other'", "never moves"),
        ("allocation_id = 'id-b'", "never moves"),
    ],
)
def test_what_no_statement_ends(
    held: State, raw: sqlite3.Connection, change: str, words: str
) -> None:
    """F-STO-04: only what was shown, proved or sworn, of this very attachment."""
    raw.execute("PRAGMA foreign_keys = OFF")
    with pytest.raises(sqlite3.IntegrityError, match=words):
        raw.execute(f"UPDATE attachment SET {change}")
    with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
        raw.execute("DELETE FROM attachment")


def test_it_begins_with_an_event_that_says_so(held: State, raw: sqlite3.Connection) -> None:
    detach(held, make_attachment())
    with pytest.raises(sqlite3.IntegrityError, match="with an event that says so"):
        raw.execute(
            f"INSERT INTO attachment ({COLUMNS}) SELECT 1, allocation_id, volume, ref, storage,"
            " node, mode, access, mount_path, since, '', NULL, NULL, NULL, NULL FROM attachment"
        )


def test_a_writer_is_made_by_no_statement(state: State, raw: sqlite3.Connection) -> None:
    both = [
        make_attachment(n, mode=m, access="multi_reader") for n, m in (("a", "rw"), ("b", "ro"))
    ]
    attach(state, *both)
    with pytest.raises(sqlite3.IntegrityError, match="has a writer"):
        raw.execute("UPDATE attachment SET mode = 'rw'")


def test_a_proof_of_before_ends_nothing(held: State, raw: sqlite3.Connection) -> None:
    """F-STO-04: what was proved before it was attached says nothing about it."""
    run = held.release("a")
    held.journal.finish_wave(run, done(proofs=(held.prove("a"),)), (), [])
    assert having(held) == []
    held.journal.begin_wave(held.run(), WaveIntent(steps=(make_step("a", order=Order.PROVIDE),)))
    attach(held, make_attachment())
    with pytest.raises(sqlite3.IntegrityError, match="shown, proved or sworn"):
        raw.execute("UPDATE attachment SET ended = 't', proof = 'proof-1' WHERE ended = ''")


@pytest.mark.parametrize(
    ("triggers", "sql", "found"),
    [
        (
            ["attachment_has_no_rival", "attachment_has_an_event"],
            "INSERT INTO attachment SELECT -e.sequence, 'id-x', volume, a.ref, storage, node, mode,"
            " access, mount_path, since, '', NULL, NULL, NULL, NULL FROM attachment a"
            " JOIN event e ON e.sequence = a.event WHERE a.ended = ''",
            f"{DATA}: attached to more than may have it",
        ),
        (
            ["attachment_ends_by_evidence", "attachment_cause_belongs_to_ended"],
            "UPDATE attachment SET ended = 't' WHERE ended = ''",
            f"{DATA} of allocation/vision/a: detached without anything that shows it",
        ),
        (
            ["volume_goes_its_way", "volume_is_wiped_unattached"],
            "UPDATE volume SET state = 'kept'",
            f"{DATA}: attached, though there is nothing of it to be attached",
        ),
    ],
)
def test_what_was_done_behind_the_guards(
    held: State, raw: sqlite3.Connection, triggers: list[str], sql: str, found: str
) -> None:
    """F-STO-04 F-STA-02: guards taken away for a moment leave traces that are found."""
    detach(held, make_attachment())
    attach(held, make_attachment())
    made = [
        raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        for name in triggers
    ]
    for name in triggers:
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(sql)
    for statement in made:
        raw.execute(statement)
    assert f"state_damaged {found}" in "\n".join(
        f"{problem.code} {problem.message}" for problem in maintenance.check(held.path)
    )


@pytest.mark.parametrize(("node", "may"), [("gpu01", True), ("gpu02", False)])
def test_a_volume_of_one_node_is_attached_there_alone(state: State, node: str, may: bool) -> None:
    """STO-04 rule 14: where its data lies."""
    run = state.run()
    joining = Joining(
        volumes=(make_volume(node="gpu01"),), attachments=(make_attachment(node=node),)
    )
    if may:
        state.journal.begin_wave(run, WaveIntent(joining=joining))
        assert having(state) == [HELD]
    else:
        with pytest.raises(ProblemError, match="no such volume can be attached there"):
            state.journal.begin_wave(run, WaveIntent(joining=joining))
