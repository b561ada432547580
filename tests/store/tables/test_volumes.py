"""Volumes, written: begun, made, grown, kept, taken back, wiped; and billed as long as they lie."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.plan import Action, Change
from reconciler.model.plan.work import WaveIntent
from reconciler.model.problem import ProblemError
from reconciler.model.state.event import EventType
from reconciler.model.state.rebuilt import Rebuilt
from reconciler.model.state.volume import Joining, Volume, VolumeState
from reconciler.store import queries, rebuild
from reconciler.store.backup import maintenance
from reconciler.store.snapshot import read_world
from reconciler.store.tables import attachments
from tests.harness.items import make_item
from tests.store.durable import (
    DATA,
    VOLUME,
    attach,
    begin,
    detach,
    ended,
    having,
    make_attachment,
    make_project,
    make_storage,
    make_volume,
    recorded,
    wiping,
)
from tests.store.records import State, make_recorded, plan, ref

OTHER = ref("storage/vision/other")


def volume(state: State, of: Any = DATA) -> Volume:
    return read_world(state.database).volumes[of]


def told(state: State, about: Any = DATA) -> list[str]:
    found = queries.events(state.database, str(about))
    return [event.type.value for event in found if event.type.value.startswith("volume")]


def bills(state: State) -> list[tuple[int, str, bool]]:
    rows = state.rows(
        "SELECT gib, price_per_gib_month || ' ' || currency, ended <> '' FROM storage_usage"
        " ORDER BY started, gib"
    )
    return [(gib, price, bool(end)) for gib, price, end in rows]


@pytest.fixture
def made(state: State) -> State:
    """A volume of 10 GiB that a host has shown, detached again."""
    recorded(state)
    attach(state, make_attachment())
    detach(state, make_attachment())
    return state


def wipe(state: State, *, ok: bool = True) -> None:
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(wiping(),)))
    state.journal.finish_wave(run, ended([wiping()], ok=ok), (), [DATA])


def test_it_is_made_when_a_host_has_shown_it(state: State) -> None:
    """STO-01 F-STO-01: until then it is what a host may make; the world knows both."""
    recorded(state)
    run, steps = begin(state, make_attachment())
    one = volume(state)
    assert (one.id, one.state, one.size_gib) == (VOLUME, VolumeState.PENDING, 10)
    assert one.backend == {"loop": {"path": "/srv/fast", "filesystem": "ext4"}}
    state.journal.finish_wave(run, ended(steps, ok=False))
    assert volume(state).state is VolumeState.PENDING
    assert having(state) == [("id-a", "rw", "/data")], "it may be attached for all that is known"
    assert not bills(state)
    attach(state, make_attachment())
    assert volume(state).state is VolumeState.MADE
    assert told(state) == ["volume_pending", "volume_made"]
    assert read_world(state.database).counters.incarnation(DATA) == 1


def test_what_nobody_has_made_may_still_be_of_another_size(state: State) -> None:
    run, steps = begin(state, make_attachment())
    state.journal.finish_wave(run, ended(steps, ok=False))
    begin(state, make_attachment(), size_gib=4)
    assert volume(state).size_gib == 4


def test_it_grows_with_what_a_host_has_shown(made: State) -> None:
    """STO-06: and is billed anew from then on, at the price of that moment."""
    run, steps = begin(made, make_attachment(), size_gib=20)
    assert volume(made).size_gib == 10
    made.journal.finish_wave(run, ended(steps, ok=True))
    assert volume(made).size_gib == 20
    assert bills(made) == [(10, "0.10 EUR", True), (20, "0.10 EUR", False)]
    assert told(made)[-1] == "volume_grown"


def test_it_never_shrinks(made: State, raw: sqlite3.Connection) -> None:
    attach(made, make_attachment(), size_gib=5)
    assert volume(made).size_gib == 10
    with pytest.raises(sqlite3.IntegrityError, match="never shrinks"):
        raw.execute("UPDATE volume SET size_gib = 9")


def test_use_is_billed_by_the_price_of_its_day(made: State) -> None:
    """MON-01 of storage (rule 18): copied when use begins; the tenant is that of its project."""
    assert bills(made) == [(10, "0.10 EUR", False)]
    assert made.rows("SELECT tenant, project, class FROM storage_usage") == [
        ("corp", "vision", "fast")
    ]
    attach(made, make_attachment("b"))
    assert len(bills(made)) == 1, "one use, however many have it after one another"


class TestKept:
    def test_a_document_goes_and_its_data_stays(self, made: State) -> None:
        """F-STO-03 STO-07: owner and date stand with it, and its bill goes on."""
        made.journal.record(made.run(), (), [DATA])
        one = volume(made)
        assert (one.state, one.owner) == (VolumeState.KEPT, "ana")
        assert one.since > "2026-11-01"
        assert DATA not in read_world(made.database).recorded
        assert bills(made) == [(10, "0.10 EUR", False)]

    def test_its_project_goes_with_it(self, made: State) -> None:
        """F-STO-03 rule 15: its owner is still known, and its files keep the number they bear."""
        made.database.connection.execute(
            "INSERT INTO posix_id VALUES ('gid', 20001, 'vision', 't', '')"
        )
        made.journal.record(made.run(), (), [ref("project/vision"), DATA])
        assert volume(made).owner == "ana"
        assert read_world(made.database).counters.gids == {"vision": 20001}
        made.journal.record(made.run(), [make_project(), make_storage()])
        made.journal.record(made.run(), (), [ref("project/vision")])
        wipe(made)
        assert read_world(made.database).counters.gids == {}, "with the last of its files"

    def test_a_document_takes_it_back(self, made: State) -> None:
        """STO-07: it is what it was, and is not made anew."""
        made.journal.record(made.run(), (), [DATA])
        made.journal.record(made.run(), [make_storage()])
        assert volume(made).state is VolumeState.MADE
        attach(made, make_attachment("b"))
        assert told(made) == ["volume_pending", "volume_made", "volume_kept", "volume_made"]

    def test_also_under_another_name(self, made: State) -> None:
        """F-STO-03: by `formerName`; the old name is free."""
        made.journal.record(made.run(), (), [DATA])
        made.journal.record(made.run(), renamed=[(DATA, make_storage(ref=OTHER))])
        assert (volume(made, OTHER).id, volume(made, OTHER).state) == (VOLUME, VolumeState.MADE)
        assert DATA not in read_world(made.database).volumes

    def test_what_was_never_made_is_still_to_be_made(self, state: State) -> None:
        recorded(state)
        run, steps = begin(state, make_attachment())
        state.journal.finish_wave(run, ended(steps, ok=False))
        detach(state, make_attachment())
        state.journal.record(state.run(), (), [DATA])
        assert volume(state).state is VolumeState.KEPT
        state.journal.record(state.run(), [make_storage()])
        assert volume(state).state is VolumeState.PENDING

    def test_who_is_attached_keeps_it_on_the_books(self, made: State) -> None:
        """F-STO-07: whatever a plan has thought meanwhile."""
        attach(made, make_attachment())
        made.journal.record(made.run(), (), [DATA])
        assert DATA in read_world(made.database).recorded
        assert volume(made).state is VolumeState.MADE


class TestWiped:
    def test_it_is_gone_when_a_host_has_shown_it(self, made: State) -> None:
        """STO-07: its bill ends, its id is never used again, its storage begins anew."""
        wipe(made)
        world = read_world(made.database)
        assert (world.volumes, DATA in world.recorded) == ({}, False)
        assert bills(made) == [(10, "0.10 EUR", True)]
        assert made.rows("SELECT state FROM volume") == [("gone",)]
        recorded(made)
        second = make_attachment(volume="second")
        joining = Joining(volumes=(make_volume("second"),), attachments=(second,))
        made.journal.begin_wave(made.run(), WaveIntent(joining=joining))
        assert read_world(made.database).counters.incarnation(DATA) == 2

    def test_it_counts_as_what_it_is_and_not_by_its_name(self, made: State) -> None:
        """Else what is made again under its name would be taken for it, come back."""
        gone = Change(ref=DATA, action=Action.RELEASE)
        made.journal.begin_wave(
            made.journal.begin_run(plan(changes=(gone,))), WaveIntent(steps=(wiping(),))
        )
        (one,) = read_world(made.database).removals
        assert (one.ref, one.thing) == (DATA, VOLUME)

    def test_what_it_was_is_known_and_may_be_forgotten(self, made: State) -> None:
        """STO-07: hosts have a word of it still; one that is asked is as ready as it was."""
        wipe(made)
        (gone,) = read_world(made.database).wiped.values()
        assert (gone.id, gone.ref, gone.state) == (VOLUME, DATA, VolumeState.GONE)
        one = make_recorded("gpu01", ref=ref("node/gpu01"), facts={"/etc/x": "dir 0755"})
        made.journal.record(made.run(), [one])
        item = make_item("storage.forget", volume=VOLUME)
        forget = replace(wiping(), verb="storage.forget", ref=one.ref, item=item)
        run = made.run()
        made.journal.begin_wave(run, WaveIntent(steps=(forget,)))
        assert read_world(made.database).recorded[one.ref].facts == one.facts
        made.journal.finish_wave(run, ended([forget], ok=True))
        assert [one.id for one in read_world(made.database).wiped.values()] == [VOLUME]

    def test_one_that_fails_is_not_over(self, made: State) -> None:
        """Nobody knows what is left of it: it stays on the books, and each try is told."""
        wipe(made, ok=False)
        assert (volume(made).state, DATA in read_world(made.database).recorded) == (
            VolumeState.WIPING,
            True,
        )
        with pytest.raises(ProblemError, match="no such volume"):
            attach(made, make_attachment())
        wipe(made)
        assert DATA not in read_world(made.database).volumes
        assert told(made)[-3:] == ["volume_wiping", "volume_wiping", "volume_gone"]

    def test_never_while_it_is_attached(self, made: State) -> None:
        """F-STO-07 F-STO-02: the database says so, too."""
        attach(made, make_attachment())
        with pytest.raises(ProblemError, match="the volume is attached"):
            wipe(made)
        assert volume(made).state is VolumeState.MADE


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE volume SET state = 'gone'", "go this way|a host has shown it"),
        ("UPDATE volume SET state = 'pending'", "go this way"),
        ("UPDATE volume SET made = ''", "go this way"),
        ("UPDATE volume SET node = 'gpu02'", "never moves"),
        ("UPDATE volume SET backend = '{}'", "never moves"),
        ("DELETE FROM volume", "never deleted"),
        ("UPDATE storage_usage SET price_per_gib_month = '0'", "only ends"),
        ("DELETE FROM storage_usage", "never deleted"),
        (
            "INSERT OR REPLACE INTO volume SELECT 'x', storage, class, backend, node, size_gib,"
            " 'pending', since, '', '', event FROM volume",
            "the storage has a volume",
        ),
        (
            "INSERT OR REPLACE INTO volume SELECT id, storage, class, backend, node, size_gib,"
            " 'pending', since, '', '', event FROM volume",
            "never written over|has a volume",
        ),
    ],
)
def test_what_the_guards_refuse(made: State, raw: sqlite3.Connection, sql: str, words: str) -> None:
    """F-STO-01 F-STO-03: data does not come, go or move by a statement."""
    raw.execute("PRAGMA foreign_keys = OFF")
    with pytest.raises(sqlite3.IntegrityError, match=words):
        raw.execute(sql)


def test_a_wipe_that_no_host_has_done_ends_nothing(made: State, raw: sqlite3.Connection) -> None:
    made.journal.begin_wave(made.run(), WaveIntent(steps=(wiping(),)))
    with pytest.raises(sqlite3.IntegrityError, match="when a host has shown it"):
        raw.execute("UPDATE volume SET state = 'gone'")


def test_what_hosts_have_told_of_is_rebuilt(state: State) -> None:
    """F-STA-09 of storage: as it was, kept where nobody records its storage, and billed."""
    recorded(state)
    fields = {"class_name": "fast", "backend": {"nfs": {"server": "s"}}, "size_gib": 3}
    lost = Volume(id="lost", ref=OTHER, state=VolumeState.KEPT, **fields)  # type: ignore[arg-type]
    had = Volume(id=VOLUME, ref=DATA, state=VolumeState.MADE, **fields)  # type: ignore[arg-type]
    held = make_attachment()
    rebuilt = Rebuilt(nodes=("gpu01",), volumes=(had, lost), attachments=(held,), reason="lost")
    state.journal.enter("rebuild", rebuild.write, rebuilt)
    assert {one.id: one.state for one in read_world(state.database).volumes.values()} == {
        VOLUME: VolumeState.MADE,
        "lost": VolumeState.KEPT,
    }
    assert having(state) == [("id-a", "rw", "/data")]
    assert len(bills(state)) == 2


def test_a_sound_state(made: State) -> None:
    """F-STA-03: nothing is found, whatever has happened."""
    attach(made, make_attachment())
    made.journal.enter("fence", attachments.fence, read_world(made.database).attachments, "burnt")
    attach(made, make_attachment("b"))
    detach(made, make_attachment("b"))
    made.journal.record(made.run(), (), [DATA])
    made.journal.record(made.run(), [make_storage()])
    wipe(made)
    assert maintenance.check(made.path) == ()


def test_one_line_a_storage(made: State) -> None:
    """STO-08: what is recorded, made, attached and billed, side by side; kept data as well."""
    attach(made, make_attachment())
    (row,) = queries.projected(made.database, "storage")
    assert (row["ref"], row["volume"], row["state"]) == (str(DATA), VOLUME, "made")
    assert (row["attachments"], row["writers"], row["price_per_gib_month"]) == (1, 1, "0.10")
    detach(made, make_attachment())
    made.journal.record(made.run(), (), [DATA])
    (row,) = queries.projected(made.database, "storage")
    assert (row["state"], row["owner"], row["recorded_at"]) == ("kept", "ana", None)


def test_every_state_has_its_event() -> None:
    assert {EventType(f"volume_{state}") for state in VolumeState} <= set(EventType)
