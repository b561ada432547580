"""Pending revocations: steps that take access away and have not succeeded yet.

Such a step says whose access ends with it, those still pending before included. That is written
down apart from the step, which goes with its run one day: who may still be inside is told until
they are out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from reconciler.model.canonical import canonical
from reconciler.model.plan.plan import Step
from reconciler.model.plan.verb import Verb
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.world import Revocation
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.transaction import Record

_BEGIN = (
    "INSERT INTO revocation (ref, node, people, since) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (ref, node) DO UPDATE SET people = excluded.people"
)
_END = (
    "DELETE FROM revocation WHERE ref = ? AND node = ? AND NOT EXISTS ("
    "SELECT value FROM json_each(people) EXCEPT SELECT value FROM json_each(?))"
)
_IN_DOUBT = "SELECT project, name FROM resource WHERE kind = 'allocation' AND basis = ''"
_GIVEN_UP = "SELECT DISTINCT ref FROM claim WHERE state <> 'freed' AND state <> 'held'"
_WORD = "SELECT 1 FROM suspension WHERE since <= ? AND scope IN (SELECT value FROM json_each(?))"


def begin(record: Record, intent: WaveIntent) -> None:
    await_ends(record, intent.steps)


def settle(record: Record, wave: WaveOutcome) -> None:
    end(record, [outcome.step for outcome in wave.steps if outcome.ok])


def await_ends(record: Record, steps: Sequence[Step]) -> None:
    """Each waits from its first try on."""
    syncs = [step for step in steps if step.verb == Verb.SYNC]
    record.connection.executemany(
        _BEGIN,
        [
            (str(step.ref), step.node, canonical(list(step.revokes)), record.at)
            for step in syncs
            if step.revokes
        ],
    )
    _drop(record, [step for step in syncs if not step.revokes])


def end(record: Record, steps: Sequence[Step]) -> None:
    """These have ended well: nobody whom they name is inside.

    Others stay pending, who were shut out when a step was at work already that knew nothing of it.
    """
    record.connection.executemany(
        _END,
        [
            (str(step.ref), step.node, canonical([*step.revokes]))
            for step in steps
            if step.verb == Verb.SYNC
        ],
    )


def rename(record: Record, former: Ref, ref: Ref) -> None:
    record.connection.execute(
        "UPDATE revocation SET ref = ? WHERE ref = ?", (str(ref), str(former))
    )


def forget(record: Record, refs: Sequence[Ref]) -> None:
    """What is proved gone has no door left; who takes its name begins anew."""
    record.connection.executemany(
        "DELETE FROM revocation WHERE ref = ?", [(str(ref),) for ref in refs]
    )


def read_revocations(connection: sqlite3.Connection) -> tuple[Revocation, ...]:
    return tuple(_revocations(connection))


def _revocations(connection: sqlite3.Connection) -> Iterator[Revocation]:
    """Of every allocation that is in doubt, or given up and not proved gone.

    One that was recorded by steps which knew nothing of a word that counts still is no less open.
    """
    doubted = (Ref("allocation", *names) for names in connection.execute(_IN_DOUBT))
    given_up = (stored_ref(text) for (text,) in connection.execute(_GIVEN_UP))
    refs = {str(ref): ref for ref in (*doubted, *given_up)}
    rows = connection.execute("SELECT ref, node, people, since FROM revocation ORDER BY ref, node")
    for text, node, people, since in rows.fetchall():
        named = tuple(json.loads(people))
        ref = refs.get(text) or _shut_out(connection, text, named, since)
        if ref is not None:
            yield Revocation(ref=ref, node=node, people=named, since=since)


def _shut_out(
    connection: sqlite3.Connection, text: str, people: Iterable[str], since: str
) -> Ref | None:
    """The ref of a row that a suspension was written for, and that stands still."""
    ref = parse_ref(text)
    if ref is None:
        return None
    scopes = {f"project/{ref.project}", *(f"user/{one.partition('/')[0]}" for one in people)}
    word = connection.execute(_WORD, (since, canonical(sorted(scopes)))).fetchone()
    return ref if word else None


def _drop(record: Record, steps: Iterable[Step]) -> None:
    record.connection.executemany(
        "DELETE FROM revocation WHERE ref = ? AND node = ?",
        [(str(step.ref), step.node) for step in steps],
    )


TABLE = Table(
    begin=begin, settle=settle, forget=forget, rename=rename, read={"revocations": read_revocations}
)
